// Builds without CUDA: there is no NCCL, and no collective is ever in flight on a device.
#include "base/error.hpp"
#include "comm/collective_watch.hpp"
#include "comm/nccl_communicator.hpp"

namespace cohort {

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&, std::string name) {
  fail(ExitCode::launch,
       "the group '{}' communicates between GPUs, but this build of Cohort has no CUDA and NCCL: configure with the preset cuda, "
       "or use the device cpu",
       name);
}

int nccl_version() { return 0; }

void check_nccl_progress() {}

std::optional<double> take_stalled_seconds() { return std::nullopt; }
void forget_stalled_seconds() {}

void set_collective_timeout(double seconds) { CollectiveWatch().set_timeout(seconds); }  // refuses what makes no sense

}  // namespace cohort
