#include "runtime/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "gpu/device.hpp"
#include "gpu/nvtx_ranges.hpp"
#include "observe/tracer.hpp"
#include "runtime/affinity.hpp"
#include "runtime/device_choice.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/kokkos.hpp"
#include "runtime/mpi_world.hpp"
#include "runtime/start_guard.hpp"
#include "runtime/step_claim.hpp"
#include "watch/addresses.hpp"

namespace cohort {
namespace {

// Set once MPI has answered; errors are reported from main, where no Runtime is left to ask.
std::optional<MpiFacts> known_to_mpi;

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown host";
  return name;
}

// Runs `check` and keeps what it throws, so that a problem of one rank can be shared before anyone leaves.
template <class Check>
void collect(std::optional<Error>& problem, const Check& check) {
  if (problem) return;
  try {
    check();
  } catch (const Error& error) {
    problem = error;
  }
}

std::vector<std::string> distinct_of_all_ranks(const std::vector<std::string>& own) {
  std::vector<std::string> distinct;
  for (const std::string& of_rank : gather_text(join(own, "\n"))) {
    for (std::size_t at = 0; at < of_rank.size();) {
      const std::size_t end = std::min(of_rank.find('\n', at), of_rank.size());
      const std::string warning = of_rank.substr(at, end - at);
      if (std::find(distinct.begin(), distinct.end(), warning) == distinct.end()) distinct.push_back(warning);
      at = end + 1;
    }
  }
  return distinct;
}

// Where rank 0 listens: at the loopback for ranks that have it in common with rank 0, and at the addresses of its network
// interfaces, of which any may be the one that they reach, for the others. Collective over: world
std::vector<std::string> monitor_addresses() {
  const std::vector<std::string> networks = gather_text(own_network());
  std::vector<std::string> addresses;
  if (networks.empty()) return addresses;  // not rank 0
  const auto near = std::count(networks.begin(), networks.end(), networks.front());
  if (near > 1) addresses = loopback_addresses();
  if (near == static_cast<std::ptrdiff_t>(networks.size())) return addresses;
  for (std::string& address : own_addresses()) addresses.push_back(std::move(address));
  return addresses;
}

void take_range_tool(const std::optional<RangeTool>& tool) {
  if (tool) Tracer::of_process().add_range_tool(*tool);
}

}  // namespace

Runtime::Runtime() : exceptions_before_(std::uncaught_exceptions()) {
  // 1. What the launcher claims. Malformed claims are reported after MPI is up, once instead of once per rank.
  std::optional<Error> problem;
  collect(problem, [&] { launcher_ = read_launcher_facts(current_environment()); });
  host_ = launcher_.node_name.empty() ? host_name() : launcher_.node_name;

  // 2. Whether MPI can come up at all: Open MPI ends the process inside MPI_Init if not.
  if (!problem) {
    const auto remark = check_before_mpi(launcher_, mpi_is_open_mpi());
    if (remark && is_printing_rank()) print_error_line(*remark);
    if (mpi_library_version().starts_with("Open MPI v4")) claim_step(current_environment(), launcher_);
  }

  // 3. MPI, the authority. It waits for all ranks, and would for ever.
  const double timeout = watch_timeout(current_environment());
  FlightRecorder::of_process().set_activity("starting MPI");
  StartGuard guard(timeout, launcher_);
  owns_mpi_ = init_mpi();
  mpi_ = mpi_facts();
  known_to_mpi = mpi_;

  // 4. Claims against facts. All ranks refuse together.
  std::vector<std::string> own_warnings;
  collect(problem, [&] {
    own_warnings = check_against_mpi(launcher_, mpi_, mpi_library_version());
    if (const auto cores = check_cores(launcher_, static_cast<int>(allowed_cores().size()))) own_warnings.push_back(*cores);
  });
  agree_on_problem(problem);
  start_monitor(timeout);
  guard.disarm();
  for (std::string& warning : distinct_of_all_ranks(own_warnings)) warnings_.push_back(std::move(warning));
}

void Runtime::start_monitor(double timeout) {
  monitor_ =
      std::make_unique<Monitor>(Monitor::Options{.rank = rank(),
                                                 .size = size(),
                                                 .host = host_,
                                                 .addresses = size() > 1 ? monitor_addresses() : std::vector<std::string>{},
                                                 .timeout = timeout,
                                                 .end_job = [] { end_job_now(ExitCode::lost); },
                                                 .say = [](const std::string& text) { print_error_line(text); }});
  if (size() == 1) return;
  const std::string address = broadcast_text_of_rank_0(rank() == 0 ? monitor_->open() : "");
  const bool reached = rank() == 0 || monitor_->connect(address);
  std::vector<int> unreachable;
  const std::vector<std::string> answers = gather_text(reached ? "yes" : "no");
  for (std::size_t r = 0; r < answers.size(); ++r) {
    if (answers[r] == "no") unreachable.push_back(static_cast<int>(r));
  }
  if (!unreachable.empty()) {
    warnings_.push_back(fmt::format("{} cannot reach rank 0 on {} by TCP: if one of them is lost or stuck, that is not reported",
                                    name_ranks(unreachable), host_));
  }
  monitor_->start(unreachable);
}

void Runtime::open_device(DeviceKind kind, bool share) {
  FlightRecorder::of_process().set_activity("opening the device");
  if (kind == DeviceKind::cpu) {
    owns_kokkos_ = start_kokkos(std::nullopt);
    take_range_tool(kokkos_range_tool());
    return;
  }
  const int index = choose_device(host_, local_rank(), share);
  owns_kokkos_ = start_kokkos(index);
  gpu::open(index);
  take_range_tool(kokkos_range_tool());
  take_range_tool(gpu::nvtx_range_tool());
  device_name_ = fmt::format("{} (device {}, {})", gpu::facts().name, index, gpu::facts().pci_id);
}

Runtime::~Runtime() {
  if (std::uncaught_exceptions() > exceptions_before_) return;
  FlightRecorder::of_process().set_activity("ending MPI");
  try {
    gpu::close();
    if (owns_kokkos_) stop_kokkos();
    if (owns_mpi_) finalize_mpi();
  } catch (const std::exception& error) {
    print_error_line(fmt::format("while ending MPI: {}", error.what()));
  }
}

ProcessIdentity process_identity() {
  if (known_to_mpi) return {known_to_mpi->rank, known_to_mpi->size, host_name(), known_to_mpi->size > 1};
  try {
    const LauncherFacts facts = read_launcher_facts(current_environment());
    return {facts.rank, facts.size.value_or(1), host_name(), false};
  } catch (const Error&) {  // malformed variables are reported where they are needed
    return {std::nullopt, 1, host_name(), false};
  }
}

}  // namespace cohort
