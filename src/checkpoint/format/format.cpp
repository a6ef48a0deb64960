#include "checkpoint/format/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cohort {
namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::size_t kStepDigits = 8;

std::string with_groups(std::string_view parameter) {
  std::string path(parameter);
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

std::optional<Count> step_between(std::string_view name, std::string_view before, std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() < before.size() + after.size()) return std::nullopt;
  return step_of_name(name.substr(before.size(), name.size() - before.size() - after.size()));
}

}  // namespace

std::filesystem::path checkpoints_folder(const std::filesystem::path& run_folder) { return run_folder / "checkpoints"; }

std::string step_name(Count step) { return fmt::format("{}{:0{}}", kStepPrefix, step, kStepDigits); }
std::string temporary_name(Count step) { return fmt::format(".{}.tmp", step_name(step)); }
std::string replaced_name(Count step) { return fmt::format(".{}.old", step_name(step)); }

std::optional<Count> step_of_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  Count step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // Comparing with the name of that step refuses signs, too few digits and too many zeros: one step, one name.
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

std::optional<Count> step_of_temporary(std::string_view name) { return step_between(name, ".", ".tmp"); }
std::optional<Count> step_of_replaced(std::string_view name) { return step_between(name, ".", ".old"); }

std::string value_dataset(std::string_view parameter) { return "/model/" + with_groups(parameter); }

std::string state_dataset(std::string_view slot, std::string_view parameter) {
  return fmt::format("/optim/{}/{}", slot, with_groups(parameter));
}

}  // namespace cohort
