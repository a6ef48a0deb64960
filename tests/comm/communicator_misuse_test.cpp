// The suite of wrong arguments on the backends of host memory.
#include "communicator_misuse_suite.hpp"

namespace cohort::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Host, CommunicatorMisuseTest, PlainBackends);

}  // namespace
}  // namespace cohort::test
