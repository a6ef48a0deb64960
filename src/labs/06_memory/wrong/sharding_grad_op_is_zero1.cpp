// sharding_of: gradients are not divided, you say
#include <cohort/lab06_memory.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

// Takes SHARD_GRAD_OP for stage 1.
Sharding sharding_of(std::string_view name) {
  if (name == "NO_SHARD" || name == "zero0") return {false, false, false, false};
  if (name == "zero1" || name == "SHARD_GRAD_OP") return {true, false, false, false};
  if (name == "zero2") return {true, true, false, false};
  if (name == "FULL_SHARD" || name == "zero3") return {true, true, true, false};
  if (name == "HYBRID_SHARD") return {true, true, true, true};
  throw std::invalid_argument("unknown: " + std::string(name));
}
