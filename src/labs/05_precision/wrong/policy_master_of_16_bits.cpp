// precision_policy: updates are smaller than the gaps of 16 bits
#include <cohort/lab05_precision.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

// The optimizer updates 16-bit weights.
Policy precision_policy(std::string_view name) {
  if (name == "fp32") return {Type::fp32, Type::fp32, Type::fp32, false};
  if (name == "bf16") return {Type::bf16, Type::fp32, Type::bf16, false};
  if (name == "fp16") return {Type::fp16, Type::fp32, Type::fp16, true};
  throw std::invalid_argument("no policy is called " + std::string(name) + ": fp32, bf16, fp16");
}
