#include "runtime/topology.hpp"

#include <charconv>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "runtime/mpi_world.hpp"

namespace cohort {
namespace {

// Fields of a place as it travels; none of them contains a tab.
std::string pack(const Runtime& runtime) {
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}", runtime.host(), runtime.node_rank(), runtime.local_rank(),
                     cores_text(allowed_cores()), online_cores(), runtime.device());
}

int to_int(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  COHORT_CHECK(error == std::errc{} && end == text.data() + text.size(), "'{}' is not a number", text);
  return value;
}

Place unpack(int rank, const std::string& text) {
  std::vector<std::string> fields(1);
  for (const char c : text) {
    if (c == '\t') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  COHORT_CHECK(fields.size() == 6, "rank {} described its place with {} fields", rank, fields.size());
  return {rank, fields[0], to_int(fields[1]), to_int(fields[2]), parse_cores(fields[3]), to_int(fields[4]), fields[5]};
}

}  // namespace

std::vector<Place> gather_places(const Runtime& runtime) {
  std::vector<Place> places;
  for (const std::string& text : gather_text(pack(runtime))) places.push_back(unpack(static_cast<int>(places.size()), text));
  return places;
}

BindingFindings check_places(const std::vector<Place>& places) {
  std::vector<Binding> bindings;
  for (const Place& place : places) bindings.push_back({place.rank, place.node_rank, place.host, place.cores, place.online});
  return check_bindings(bindings);
}

std::vector<std::string> startup_warnings(const Runtime& runtime) {
  std::vector<std::string> warnings = runtime.warnings();
  for (std::string& warning : check_places(gather_places(runtime)).warnings) warnings.push_back(std::move(warning));
  return warnings;
}

NodeRanks ranks_of_node(Count nodes, Count ranks_per_node, Count node) {
  static constexpr Count kMost = std::numeric_limits<int>::max();
  const auto positive = [](const char* option, Count value) {
    if (value < 1 || value > kMost) fail(ExitCode::usage, "{} {} is not in the range 1 to {}", option, value, kMost);
  };
  positive("--nodes", nodes);
  positive("--ranks-per-node", ranks_per_node);
  if (nodes * ranks_per_node > kMost) {
    fail(ExitCode::usage, "--nodes {} times --ranks-per-node {} makes {} ranks: MPI numbers at most {}", nodes, ranks_per_node,
         nodes * ranks_per_node, kMost);
  }
  if (node < 0 || node >= nodes) {
    fail(ExitCode::usage, "--node {} is not one of {}: nodes are numbered from 0, so use 0 to {}", node, counted(nodes, "node"),
         nodes - 1);
  }
  return {static_cast<int>(node * ranks_per_node), static_cast<int>(ranks_per_node), static_cast<int>(nodes * ranks_per_node)};
}

}  // namespace cohort
