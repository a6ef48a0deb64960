#include "comm/call_comparison.hpp"

#include <fmt/format.h>

#include <array>

namespace cohort {
namespace {

std::string what(const std::string& call) { return call.substr(0, call.find('\n')); }
std::string where(const std::string& call) { return call.substr(call.find('\n') + 1); }

}  // namespace

std::string describe_call(const char* operation, Count elements, DType dtype, std::optional<ReduceOp> op, int root,
                          const Communicator::Site& site) {
  constexpr std::array<const char*, 3> kOps{"sum", "max", "avg"};
  std::string detail;
  if (op) detail = fmt::format(" ({})", kOps.at(static_cast<std::size_t>(*op)));
  if (root >= 0) detail = fmt::format(" (from {})", root);
  const std::string amount = elements > 0 ? fmt::format(" of {} {}", elements, name_of(dtype)) : "";
  return fmt::format("{}{}{}\n{}:{}", operation, amount, detail, site.file_name(), site.line());
}

std::string first_difference(const std::vector<std::string>& calls) {
  for (std::size_t rank = 1; rank < calls.size(); ++rank) {
    if (what(calls[rank]) == what(calls[0])) continue;
    return fmt::format("rank 0 calls {} at {}, rank {} {} at {}", what(calls[0]), where(calls[0]), rank, what(calls[rank]),
                       where(calls[rank]));
  }
  return "";
}

}  // namespace cohort
