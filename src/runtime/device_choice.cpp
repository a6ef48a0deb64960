#include "runtime/device_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "gpu/device.hpp"
#include "runtime/mpi_world.hpp"

namespace cohort {
namespace {

constexpr std::size_t kTableRows = 32;  // more ranks than a node has GPUs

// "rank  host  local rank  visible GPUs  chosen  PCI address", of the ranks of one host.
std::string table_of(const std::vector<RankDevices>& all, const std::string& host) {
  Table table({"rank", "host", "local rank", "visible GPUs", "chosen", "PCI address"});
  std::size_t rows = 0;
  for (const RankDevices& of : all) {
    if (of.host != host || ++rows > kTableRows) continue;
    const bool none = of.pci_ids.empty();
    table.add({fmt::to_string(of.rank), of.host, fmt::to_string(of.local_rank), fmt::to_string(of.pci_ids.size()),
               none ? "-" : fmt::to_string(device_index(of)),
               none ? "-" : of.pci_ids[static_cast<std::size_t>(device_index(of))]});
  }
  const std::string rest =
      rows > kTableRows ? fmt::format("... and {} of this host\n", counted(static_cast<Count>(rows - kTableRows), "more rank"))
                        : "";
  std::string text = "\n" + table.str(2) + rest;
  text.pop_back();  // the message ends without a newline
  return text;
}

Error missing(const std::vector<RankDevices>& all) {
  const auto blind = [](const RankDevices& of) { return of.pci_ids.empty(); };
  const auto without = static_cast<std::size_t>(std::count_if(all.begin(), all.end(), blind));
  const RankDevices& first = *std::find_if(all.begin(), all.end(), blind);
  if (without == all.size()) {
    return Error(ExitCode::launch, fmt::format("no rank sees a GPU; on {}: {}", first.host, first.why_none));
  }
  return Error(ExitCode::launch,
               fmt::format("rank {} on {} sees no GPU ({}), while {} of {} ranks can see one. Ask for a GPU for each rank: srun "
                           "--gpus-per-task=1, or --gres=gpu:N with N ranks per node{}",
                           first.rank, first.host, first.why_none, all.size() - without, all.size(), table_of(all, first.host)));
}

Error shared(const std::vector<RankDevices>& all, const RankDevices& one, const RankDevices& other) {
  std::size_t ranks = 0;
  std::set<std::string> devices;
  for (const RankDevices& of : all) {
    if (of.host != one.host) continue;
    ++ranks;
    devices.insert(of.pci_ids.begin(), of.pci_ids.end());
  }
  const auto hidden = static_cast<std::size_t>(one.on_node) > devices.size();
  const std::string advice =
      hidden
          ? fmt::format(
                "The node has {} GPUs: let each rank see all of them, or one of its own (srun --gpus-per-task=1, or "
                "--gres=gpu:N), and check CUDA_VISIBLE_DEVICES; with these {}, start at most {} per node (--ntasks-per-node={})",
                one.on_node, devices.size(), devices.size(), devices.size())
      : ranks > devices.size()
          ? fmt::format("Start at most {} per node (--ntasks-per-node={})", devices.size(), devices.size())
          : "Let each rank see all GPUs of its node, or one of its own: check CUDA_VISIBLE_DEVICES and the options of srun";
  return Error(ExitCode::launch,
               fmt::format("ranks {} and {} would share one GPU: {} has {} ranks and they see {}. {}. If sharing is meant, set "
                           "device.share = true{}",
                           one.rank, other.rank, one.host, ranks, counted(static_cast<Count>(devices.size()), "GPU"), advice,
                           table_of(all, one.host)));
}

std::optional<Error> check_sharing(const std::vector<RankDevices>& all) {
  std::map<std::pair<std::string, std::string>, const RankDevices*> taken;  // (host, PCI address) -> by whom
  for (const RankDevices& of : all) {
    const auto [place, fresh] = taken.try_emplace({of.host, of.pci_ids[static_cast<std::size_t>(device_index(of))]}, &of);
    if (!fresh) return shared(all, *place->second, of);
  }
  return std::nullopt;
}

// Fields as they travel, one a line; none of them contains a newline.
std::string pack(const RankDevices& of) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", of.host, of.local_rank, of.why_none, of.on_node, join(of.pci_ids, "\n"));
}

int to_int_of_devices(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  COHORT_CHECK(error == std::errc{} && end == text.data() + text.size(), "'{}' is not a number", text);
  return value;
}

RankDevices unpack(int rank, const std::string& text) {
  std::vector<std::string> fields(1);
  for (const char c : text) {
    if (c == '\n') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  COHORT_CHECK(fields.size() >= 5, "rank {} described its devices with {} fields", rank, fields.size());
  RankDevices of{rank, fields[0], to_int_of_devices(fields[1]), {}, fields[2], to_int_of_devices(fields[3])};
  for (std::size_t i = 4; i < fields.size(); ++i) {
    if (!fields[i].empty()) of.pci_ids.push_back(fields[i]);
  }
  return of;
}

int devices_of_driver() {
  std::error_code error;
  const std::filesystem::directory_iterator folder("/proc/driver/nvidia/gpus", error);
  return error ? 0 : static_cast<int>(std::distance(begin(folder), end(folder)));
}

// What this process sees. Throws SharedError(launch) if CUDA fails on a rank. // Collective over: world
RankDevices own_devices(const std::string& host, int local_rank) {
  RankDevices own{0, host, local_rank, {}, {}, devices_of_driver()};
  std::optional<Error> problem;
  try {
    for (int i = 0; i < gpu::visible_devices(); ++i) own.pci_ids.push_back(gpu::describe(i).pci_id);
    if (own.pci_ids.empty()) own.why_none = gpu::why_no_device();
  } catch (const Error& error) {
    problem = error;
  }
  agree_on_problem(problem);
  return own;
}

// check_devices() of all ranks, known to rank 0 alone. // Collective over: world
std::optional<Error> check_all_devices(const RankDevices& own, bool share) {
  std::vector<RankDevices> all;  // on rank 0, which judges for all
  for (const std::string& text : gather_text(pack(own))) all.push_back(unpack(static_cast<int>(all.size()), text));
  return all.empty() ? std::nullopt : check_devices(all, share);
}

}  // namespace

int device_index(const RankDevices& of) {
  COHORT_CHECK(!of.pci_ids.empty(), "rank {} sees no device to choose from", of.rank);
  return of.local_rank % static_cast<int>(of.pci_ids.size());
}

std::optional<Error> check_devices(const std::vector<RankDevices>& all, bool share) {
  const bool all_see = std::none_of(all.begin(), all.end(), [](const RankDevices& of) { return of.pci_ids.empty(); });
  if (!all_see) return missing(all);
  return share ? std::nullopt : check_sharing(all);
}

int choose_device(const std::string& host, int local_rank, bool share) {
  const RankDevices own = own_devices(host, local_rank);
  agree_on_problem(check_all_devices(own, share));
  return device_index(own);
}

std::string why_no_gpus(const std::string& host, int local_rank, bool share) {
  const std::optional<Error> problem = check_all_devices(own_devices(host, local_rank), share);
  const std::string reason = problem ? problem->what() : "";
  return broadcast_text_of_rank_0(reason.substr(0, reason.find('\n')));  // without the table
}

}  // namespace cohort
