// sharding_of: it takes a name that there is not
#include <cohort/lab06_memory.hpp>
#include <string_view>

// What it does not know is divided.
Sharding sharding_of(std::string_view name) {
  if (name == "NO_SHARD" || name == "zero0") return {false, false, false, false};
  if (name == "zero1") return {true, false, false, false};
  if (name == "SHARD_GRAD_OP" || name == "zero2") return {true, true, false, false};
  if (name == "FULL_SHARD" || name == "zero3") return {true, true, true, false};
  if (name == "HYBRID_SHARD") return {true, true, true, true};
  return {true, true, true, false};
}
