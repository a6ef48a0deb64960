#include "runtime/affinity.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

// Ranks of one node with the same cores.
struct Group {
  std::vector<int> ranks;
  int online = 0;
};
using Groups = std::map<std::vector<int>, Group>;  // by cores

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", cores_text(ranks));
}

void check_group(const std::string& host, const std::vector<int>& cores, const Group& group, BindingFindings& findings) {
  const std::size_t ranks = group.ranks.size();
  if (ranks == 1) return;
  const bool whole_machine = static_cast<int>(cores.size()) == group.online;
  const std::string who = fmt::format("{} of {}", ranks_text(group.ranks), host);
  if (cores.size() >= ranks) {
    if (!whole_machine)
      findings.notes.push_back(
          fmt::format("{} share cores {} ({})", who, cores_text(cores), counted(static_cast<Count>(cores.size()), "core")));
  } else if (cores.size() == 1 && !whole_machine) {
    findings.warnings.push_back(fmt::format(
        "{} are all bound to core {} and take turns on it: start with `mpirun --bind-to core` or `--bind-to none`, or with `srun "
        "--cpu-bind=cores --cpus-per-task=N`",
        who, cores_text(cores)));
  } else {
    // More ranks than the machine has cores: on a laptop on purpose, and no binding would help.
    auto& where = whole_machine ? findings.notes : findings.warnings;
    where.push_back(fmt::format("{} share {} ({}): oversubscribed, so they take turns; correct, but slow", who,
                                counted(static_cast<Count>(cores.size()), "core"), cores_text(cores)));
  }
}

void check_overlaps(const std::string& host, const Groups& groups, BindingFindings& findings) {
  std::string first;
  int pairs = 0;
  for (auto a = groups.begin(); a != groups.end(); ++a) {
    for (auto b = std::next(a); b != groups.end(); ++b) {
      const bool free =
          static_cast<int>(a->first.size()) == a->second.online || static_cast<int>(b->first.size()) == b->second.online;
      std::vector<int> both;
      std::set_intersection(a->first.begin(), a->first.end(), b->first.begin(), b->first.end(), std::back_inserter(both));
      if (free || both.empty()) continue;
      if (pairs++ == 0) {
        first = fmt::format("{} (cores {}) and {} (cores {}) of {} are bound to overlapping cores", ranks_text(a->second.ranks),
                            cores_text(a->first), ranks_text(b->second.ranks), cores_text(b->first), host);
      }
    }
  }
  if (pairs == 0) return;
  const std::string more = pairs > 1 ? fmt::format(", and so on for {}", counted(pairs - 1, "more pair")) : "";
  findings.warnings.push_back(first + more +
                              ": give each rank its own with `mpirun --bind-to core`, or with `srun --cpu-bind=cores`");
}

}  // namespace

int online_cores() { return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }

std::string cores_text(const std::vector<int>& cores) {
  if (cores.empty()) return "none";
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < cores.size();) {
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    parts.push_back(first == last ? std::to_string(cores[first]) : fmt::format("{}-{}", cores[first], cores[last]));
    first = last + 1;
  }
  return join(parts, ",");
}

std::vector<int> parse_cores(std::string_view text) {
  std::vector<int> cores;
  if (text == "none") return cores;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    COHORT_CHECK(error == std::errc{}, "'{}' is not a list of cores", text);
    at = next;
    return value;
  };
  while (true) {
    const int first = number();
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    for (int core = first; core <= last; ++core) cores.push_back(core);
    if (at == end) return cores;
    COHORT_CHECK(*at == ',', "'{}' is not a list of cores", text);
    ++at;
  }
}

BindingFindings check_bindings(const std::vector<Binding>& bindings) {
  std::map<int, std::pair<std::string, Groups>> nodes;
  for (const Binding& binding : bindings) {
    auto& [host, groups] = nodes[binding.node];
    host = binding.host;
    Group& group = groups[binding.cores];
    group.ranks.push_back(binding.rank);
    group.online = binding.online;
  }
  BindingFindings findings;
  for (const auto& [number, node] : nodes) {
    for (const auto& [cores, group] : node.second) check_group(node.first, cores, group, findings);
    check_overlaps(node.first, node.second, findings);
  }
  return findings;
}

}  // namespace cohort
