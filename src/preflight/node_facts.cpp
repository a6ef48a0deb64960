#include "preflight/node_facts.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/machine.hpp"
#include "base/text.hpp"
#include "comm/nccl_communicator.hpp"
#include "comm/nccl_settings.hpp"
#include "comm/nccl_version.hpp"
#include "gpu/device.hpp"
#include "gpu/nvml.hpp"
#include "runtime/launcher.hpp"
#include "runtime/mpi_world.hpp"

namespace cohort::preflight {

namespace fs = std::filesystem;

namespace {

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> limit_of(decltype(RLIMIT_NOFILE) resource) {  // an enumeration in glibc, a number elsewhere
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

// What chooses the ways of messages. Without what differs between nodes or ranks by its nature: Open MPI's own bookkeeping, which
// mpirun also hands down as OMPI_MCA_*, is known by a lower-case name with an underscore for a prefix of its own components.
std::string transports_of(const Environment& environment) {
  constexpr std::array<std::string_view, 6> kOpenMpi{"btl", "pml", "mtl", "osc", "coll", "oob"};
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment) {
    const bool chosen = std::any_of(kOpenMpi.begin(), kOpenMpi.end(), [&, &variable = name](std::string_view component) {
      const std::string known = fmt::format("OMPI_MCA_{}", component);
      return variable == known || variable.starts_with(known + "_");
    });
    if (chosen || name.starts_with("UCX_") || name.starts_with("FI_")) settings.push_back(fmt::format("{}={}", name, value));
  }
  for (const NcclSetting& setting : nccl_settings()) {
    if (setting.counts) settings.push_back(fmt::format("{}={}", setting.name, setting.value));
  }
  return join(settings, " ");
}

std::optional<int> expected_gpus(const Environment& environment) {
  const auto found = environment.find("SLURM_GPUS_ON_NODE");
  if (found == environment.end()) return std::nullopt;
  int count = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(count) : std::nullopt;
}

void describe_gpu_software(Node& node) {
  node.driver = gpu::driver_version();
  if (const int version = nccl_version(); version > 0) node.nccl = nccl_version_text(version);
  if (gpu::visible_devices() == 0) {
    node.no_gpu = gpu::why_no_device();
    return;
  }
  const gpu::DeviceFacts facts = gpu::describe(0);
  node.driver_cuda = facts.driver_cuda;
  node.runtime_cuda = facts.runtime_cuda;
}

}  // namespace

std::vector<std::string> active_ports(const std::string& folder) {
  std::vector<std::string> active;
  std::error_code none;  // no such folder, on most machines
  for (const fs::directory_entry& device : fs::directory_iterator(folder, none)) {
    for (const fs::directory_entry& port : fs::directory_iterator(device.path() / "ports", none)) {
      if (first_line(port.path() / "state").find("ACTIVE") == std::string::npos) continue;
      active.push_back(fmt::format("{} port {}, {}", device.path().filename().string(), port.path().filename().string(),
                                   first_line(port.path() / "rate")));
    }
  }
  std::sort(active.begin(), active.end());
  return active;
}

Node describe_node(const Runtime& runtime, const std::string& program) {
  const Environment environment = current_environment();
  Node node;
  node.number = runtime.node_rank();
  node.host = runtime.host();
  node.ranks = runtime.local_size();
  node.program = program;
  node.mpi = mpi_library_version();
  node.transports = transports_of(environment);
  node.expected_gpus = expected_gpus(environment);
  describe_gpu_software(node);
  const Memory memory = machine_memory();
  node.memory_total = memory.total;
  node.memory_available = memory.available;
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    node.shm_total = static_cast<Bytes>(shm.f_blocks) * static_cast<Bytes>(shm.f_frsize);
    node.shm_free = static_cast<Bytes>(shm.f_bavail) * static_cast<Bytes>(shm.f_frsize);
  }
  node.open_files = limit_of(RLIMIT_NOFILE);
  node.locked_memory = limit_of(RLIMIT_MEMLOCK);
  node.fabric = active_ports("/sys/class/infiniband");
  return node;
}

}  // namespace cohort::preflight
