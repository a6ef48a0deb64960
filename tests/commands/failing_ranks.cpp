// failing_ranks KIND: fails as KIND says after MPI is up, through end_with_error() as cohort's main does.
#include <string>

#include "base/error.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/mpi_world.hpp"
#include "runtime/runtime.hpp"

namespace {

int run(const std::string& kind) {
  const cohort::Runtime runtime;
  const bool last = runtime.rank() == runtime.size() - 1;
  if (kind == "last" && last) cohort::fail(cohort::ExitCode::data, "the last rank found token 99");
  if (kind == "bug" && last) throw std::logic_error("a bug on the last rank");
  if (kind == "memory" && last) throw std::bad_alloc();
  if (kind == "all") cohort::fail(cohort::ExitCode::io, "every rank found the disk full");
  if (kind == "shared") throw cohort::SharedError(cohort::ExitCode::checkpoint, "no checkpoint for anyone");
  cohort::gather_text("waits for the rank that failed");
  return 0;
}

}  // namespace

int main(int, char** argv) {
  try {
    return run(argv[1]);
  } catch (const cohort::Error& error) {
    return cohort::end_with_error(error);
  } catch (const std::exception& error) {
    return cohort::end_with_exception(error);
  }
}
