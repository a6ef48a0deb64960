// sharding_of: of this one nodes hold replicas of each other
#include <cohort/lab06_memory.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

// HYBRID_SHARD is FULL_SHARD, it says.
Sharding sharding_of(std::string_view name) {
  if (name == "NO_SHARD" || name == "zero0") return {false, false, false, false};
  if (name == "zero1") return {true, false, false, false};
  if (name == "SHARD_GRAD_OP" || name == "zero2") return {true, true, false, false};
  if (name == "FULL_SHARD" || name == "zero3") return {true, true, true, false};
  if (name == "HYBRID_SHARD") return {true, true, true, false};
  throw std::invalid_argument("unknown: " + std::string(name));
}
