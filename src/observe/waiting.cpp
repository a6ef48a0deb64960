#include "observe/waiting.hpp"

#include "observe/clock.hpp"

namespace cohort {
namespace {

thread_local double waited = 0.0;

}  // namespace

double seconds_waited() { return waited; }

WaitScope::WaitScope() : begin_(steady_seconds()) {}

WaitScope::~WaitScope() { waited += steady_seconds() - begin_; }

}  // namespace cohort
