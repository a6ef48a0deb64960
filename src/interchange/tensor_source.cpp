#include "interchange/tensor_source.hpp"

#include <map>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

std::string titled(const char* title, const std::vector<std::string>& items) {
  return items.empty() ? "" : fmt::format("; {}: {}", title, first_few(items));
}

}  // namespace

void require_tensors(const std::string& where, const std::vector<TensorInfo>& wanted, const std::vector<TensorInfo>& found) {
  std::map<std::string, const TensorInfo*> left;
  for (const TensorInfo& tensor : found) left[tensor.name] = &tensor;
  std::vector<std::string> missing, other, extra;
  for (const TensorInfo& tensor : wanted) {
    const auto same_name = left.find(tensor.name);
    if (same_name == left.end()) {
      missing.push_back(tensor.name);
      continue;
    }
    if (same_name->second->shape != tensor.shape) {
      other.push_back(fmt::format("{} is {} instead of {}", tensor.name, same_name->second->shape.str(), tensor.shape.str()));
    }
    left.erase(same_name);
  }
  for (const auto& [name, tensor] : left) extra.push_back(name);
  const std::string differences = titled("missing", missing) + titled("with another shape", other) + titled("extra", extra);
  if (differences.empty()) return;
  fail(ExitCode::checkpoint, "{}: tensors do not match the model that its configuration describes{}", where, differences);
}

}  // namespace cohort
