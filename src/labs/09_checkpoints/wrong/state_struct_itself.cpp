// save_checkpoint: bytes of the struct itself are saved: a vector in it is only the address of its elements
#include <algorithm>
#include <cmath>
#include <cohort/lab09_checkpoints.hpp>
#include <cstring>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

// The memory of the struct, as if vectors were in it.
void save_checkpoint(const SmallTrainer& trainer, std::vector<std::byte>& bytes) {
  bytes.resize(sizeof trainer);
  std::memcpy(bytes.data(), static_cast<const void*>(&trainer), sizeof trainer);
}

bool load_checkpoint(std::span<const std::byte> bytes, SmallTrainer& trainer) {
  std::memcpy(static_cast<void*>(&trainer), bytes.data(), sizeof trainer);
  return true;
}
