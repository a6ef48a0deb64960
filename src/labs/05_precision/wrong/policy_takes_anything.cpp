// precision_policy: it takes a name that there is not
#include <cohort/lab05_precision.hpp>
#include <string_view>

// What it does not know is fp32.
Policy precision_policy(std::string_view name) {
  if (name == "bf16") return {Type::bf16, Type::fp32, Type::fp32, false};
  if (name == "fp16") return {Type::fp16, Type::fp32, Type::fp32, true};
  return {Type::fp32, Type::fp32, Type::fp32, false};
}
