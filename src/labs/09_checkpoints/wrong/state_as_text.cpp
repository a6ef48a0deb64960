// save_checkpoint: some of its digits are lost
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

// Numbers as text, with the six digits that a stream writes.
template <class Trainer, class Each>
void for_each_number(Trainer& trainer, const Each& each) {
  for (auto* values : {&trainer.master, &trainer.first, &trainer.second}) {
    for (auto& value : *values) each(value);
  }
  each(trainer.step);
  each(trainer.random);
  each(trainer.position);
  each(trainer.loss_scale);
  each(trainer.steps_since_overflow);
}

void save_checkpoint(const SmallTrainer& trainer, std::vector<std::byte>& bytes) {
  std::ostringstream text;
  for_each_number(trainer, [&](auto value) { text << value << ' '; });
  for (const char letter : text.str()) bytes.push_back(std::byte(letter));
}

bool load_checkpoint(std::span<const std::byte> bytes, SmallTrainer& trainer) {
  std::istringstream text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  for_each_number(trainer, [&](auto& value) { text >> value; });
  for (std::size_t i = 0; i < trainer.master.size(); ++i) trainer.working[i] = cohort::lab::round_to_bf16(trainer.master[i]);
  trainer.learning_rate = 3e-3 / (1.0 + static_cast<double>(trainer.step) / 100.0);
  return static_cast<bool>(text);
}
