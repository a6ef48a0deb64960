// save_checkpoint: dropout would draw other masks
#include <algorithm>
#include <cmath>
#include <cohort/lab09_checkpoints.hpp>
#include <cstring>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using cohort::lab::DiskFolder;
using cohort::lab::Link;

// The generator begins with its seed again.
namespace {

template <class Trainer, class Each>
void for_each_state(Trainer& trainer, const Each& each) {
  for (auto* values : {&trainer.master, &trainer.first, &trainer.second}) each(values->data(), values->size() * sizeof(float));
  each(&trainer.step, sizeof trainer.step);
  each(&trainer.position, sizeof trainer.position);
  each(&trainer.loss_scale, sizeof trainer.loss_scale);
  each(&trainer.steps_since_overflow, sizeof trainer.steps_since_overflow);
}

}  // namespace

void save_checkpoint(const SmallTrainer& trainer, std::vector<std::byte>& bytes) {
  bytes.clear();
  for_each_state(trainer, [&](const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  });
}

bool load_checkpoint(std::span<const std::byte> bytes, SmallTrainer& trainer) {
  std::size_t needed = 0;
  for_each_state(trainer, [&](void*, std::size_t size) { needed += size; });
  if (bytes.size() != needed) return false;
  for_each_state(trainer, [&](void* data, std::size_t size) {
    if (size > 0) std::memcpy(data, bytes.data(), size);
    bytes = bytes.subspan(size);
  });
  for (std::size_t i = 0; i < trainer.master.size(); ++i) trainer.working[i] = cohort::lab::round_to_bf16(trainer.master[i]);
  trainer.learning_rate = 3e-3 / (1.0 + static_cast<double>(trainer.step) / 100.0);
  return true;
}
