// precision_policy: the error does not say which name was wrong
#include <cohort/lab05_precision.hpp>
#include <stdexcept>
#include <string_view>

// Refuses, and does not say what.
Policy precision_policy(std::string_view name) {
  if (name == "fp32") return {Type::fp32, Type::fp32, Type::fp32, false};
  if (name == "bf16") return {Type::bf16, Type::fp32, Type::fp32, false};
  if (name == "fp16") return {Type::fp16, Type::fp32, Type::fp32, true};
  throw std::invalid_argument("invalid policy");
}
