#include "comm/nccl_version.hpp"

#include <cstdint>

#include "base/error.hpp"
#include "comm/consensus.hpp"

namespace cohort {

std::string nccl_version_text(int code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

void check_nccl_versions(Communicator& host, int code) {
  std::int32_t first = code;
  host.broadcast(&first, 1, DType::i32, 0);
  fail_together(host, "comparing NCCL's versions", [&] {
    if (code == first) return;
    fail(ExitCode::launch,
         "NCCL is {} here and {} on rank 0, and ranks with different versions cannot communicate: load the same CUDA and NCCL "
         "modules on all nodes",
         nccl_version_text(code), nccl_version_text(first));
  });
}

}  // namespace cohort
