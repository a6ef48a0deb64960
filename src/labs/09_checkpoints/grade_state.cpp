// 9.2: a small trainer does some steps, is saved, loaded into a new one, and both go on: bit for bit alike, or what differs is
// named.
#include "labs/09_checkpoints/grade_state.hpp"

#include <bit>
#include <cmath>
#include <cohort/lab09_checkpoints.hpp>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace cohort::labs::lab09_checkpoints {
namespace {

struct StateFunctions {
  void (*save)(const SmallTrainer&, std::vector<std::byte>&);
  bool (*load)(std::span<const std::byte>, SmallTrainer&);
};

double learning_rate_after(std::int64_t step) { return 3e-3 / (1.0 + static_cast<double>(step) / 100.0); }

SmallTrainer new_trainer(std::size_t size) {
  SmallTrainer trainer;
  for (auto* values : {&trainer.master, &trainer.working, &trainer.gradients, &trainer.first, &trainer.second})
    values->assign(size, 0.0f);
  for (std::size_t i = 0; i < size; ++i) {
    trainer.master[i] = 0.1f * std::sin(static_cast<float>(i + 1));
    trainer.working[i] = lab::round_to_bf16(trainer.master[i]);
  }
  trainer.random = 1234;
  trainer.loss_scale = 1024.0;
  trainer.learning_rate = learning_rate_after(0);
  return trainer;
}

// SplitMix64 (Steele, Lea, Flood 2014): its state is one word.
std::uint64_t draw(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// A linear model with dropout on a sample that follows from the position; returns the loss. Gradients above 4,096 are an
// overflow.
double train_step(SmallTrainer& trainer) {
  const std::size_t size = trainer.master.size();
  std::uint64_t sample = trainer.position++;
  std::vector<double> inputs(size);
  double predicted = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    const double input = static_cast<double>(draw(sample) >> 40) / 16777216.0 - 0.5;
    inputs[i] = draw(trainer.random) % 10 == 0 ? 0.0 : input;  // dropout
    predicted += trainer.working[i] * inputs[i];
  }
  const double error = predicted - 1.0;
  bool overflow = false;
  for (std::size_t i = 0; i < size; ++i) {
    trainer.gradients[i] = static_cast<float>(2.0 * error * inputs[i] * trainer.loss_scale);
    overflow = overflow || std::fabs(trainer.gradients[i]) > 4096.0f;
  }
  ++trainer.step;
  trainer.steps_since_overflow = overflow ? 0 : trainer.steps_since_overflow + 1;
  if (!overflow) {
    const double t = static_cast<double>(trainer.step);
    for (std::size_t i = 0; i < size; ++i) {
      const double gradient = trainer.gradients[i] / trainer.loss_scale;
      trainer.first[i] = static_cast<float>(0.9 * trainer.first[i] + 0.1 * gradient);
      trainer.second[i] = static_cast<float>(0.95 * trainer.second[i] + 0.05 * gradient * gradient);
      const double first = trainer.first[i] / (1.0 - std::pow(0.9, t)), second = trainer.second[i] / (1.0 - std::pow(0.95, t));
      const double change = first / (std::sqrt(second) + 1e-8) + 0.1 * trainer.master[i];
      trainer.master[i] = static_cast<float>(trainer.master[i] - trainer.learning_rate * change);
      trainer.working[i] = lab::round_to_bf16(trainer.master[i]);
    }
  }
  if (overflow) trainer.loss_scale /= 2.0;
  if (trainer.steps_since_overflow == 5) {
    trainer.loss_scale *= 2.0;
    trainer.steps_since_overflow = 0;
  }
  trainer.learning_rate = learning_rate_after(trainer.step);
  return error * error;
}

bool same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

using Floats = std::vector<float> SmallTrainer::*;

void check_values(const SmallTrainer& saved, const SmallTrainer& loaded, Floats which, const char* name, const char* why) {
  const std::vector<float>&right = saved.*which, &found = loaded.*which;
  if (found.size() != right.size()) reject("after loading, {} has {} elements, not {}", name, found.size(), right.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (same_bits(found[i], right[i])) continue;
    const bool rounded = same_bits(found[i], lab::round_to_bf16(right[i]));
    const bool close = right[i] != 0.0f && std::fabs(found[i] - right[i]) <= 1e-3f * std::fabs(right[i]);
    reject("after loading, {}[{}] is {:.9g}, and was {:.9g}: {}", name, i, found[i], right[i],
           rounded ? "that is the value rounded to bf16: the fp32 one is lost"
           : close ? "some of its digits are lost"
                   : why);
  }
}

template <class Value>
void check_value(Value right, Value found, const char* name, const char* why) {
  if (found != right) reject("after loading, {} is {}, and was {}: {}", name, found, right, why);
}

void check_same(const SmallTrainer& saved, const SmallTrainer& loaded) {
  check_values(saved, loaded, &SmallTrainer::master, "master", "the weights");
  check_values(saved, loaded, &SmallTrainer::working, "working", "forward would read other weights than those of the training");
  check_values(saved, loaded, &SmallTrainer::first, "first",
               "without AdamW's first moment the next steps take another direction");
  check_values(saved, loaded, &SmallTrainer::second, "second",
               "without AdamW's second moment the next steps have another length");
  check_value(saved.step, loaded.step, "step", "the bias correction and the schedule would begin anew");
  check_value(saved.random, loaded.random, "random", "dropout would draw other masks");
  check_value(saved.position, loaded.position, "position", "the same samples would be read twice");
  check_value(saved.loss_scale, loaded.loss_scale, "loss_scale",
              "the next steps would overflow or underflow until it is found again");
  check_value(saved.steps_since_overflow, loaded.steps_since_overflow, "steps_since_overflow",
              "the loss scale would double at another step");
  check_value(saved.learning_rate, loaded.learning_rate, "learning_rate", "the next step would have another rate");
}

bool all_same(const SmallTrainer& a, const SmallTrainer& b) {
  try {
    check_same(a, b);
  } catch (const Rejected&) {
    return false;
  }
  return true;
}

void check_refused(const StateFunctions& functions, std::span<const std::byte> bytes, std::size_t size, const std::string& what) {
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  SmallTrainer trainer = new_trainer(size);
  const SmallTrainer before = trainer;
  if (functions.load(exact, trainer)) reject("{}: load_checkpoint returns true", what);
  if (!all_same(before, trainer)) reject("{}: load_checkpoint returns false, but has changed the trainer", what);
}

void check_damaged(const StateFunctions& functions, std::vector<std::byte> bytes, std::size_t size) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, bytes.size() / 2, bytes.size() - 1})
    check_refused(functions, std::span(bytes).first(length), size, fmt::format("the first {} of {} bytes", length, bytes.size()));
  check_refused(functions, bytes, size + 1, "a checkpoint of a model with one weight less");
  if (size > 1) check_refused(functions, bytes, size - 1, "a checkpoint of a model with one weight more");
  bytes.push_back(std::byte{7});
  check_refused(functions, bytes, size, "a checkpoint with a byte more than was saved");
}

void check_resumed(const StateFunctions& functions, std::size_t size, int steps) {
  SmallTrainer trainer = new_trainer(size);
  for (int step = 0; step < steps; ++step) train_step(trainer);
  trainer.first.back() = -0.0f;  // bits, not values, are what is asked for
  std::vector<std::byte> bytes;
  functions.save(trainer, bytes);
  if (bytes.size() == sizeof(SmallTrainer) && std::memcmp(bytes.data(), static_cast<const void*>(&trainer), bytes.size()) == 0)
    reject("the {} bytes of the struct itself are saved: a vector in it is only the address of its elements", bytes.size());
  SmallTrainer resumed = new_trainer(size);
  if (!functions.load(bytes, resumed)) reject("load_checkpoint refuses the {} bytes that save_checkpoint has made", bytes.size());
  check_same(trainer, resumed);
  const std::size_t needed = 3 * size * sizeof(float) + 3 * 8 + 8 + 4;
  if (bytes.size() > needed + 256)
    reject("{} bytes are saved, and {} are enough: something in them is computed anew or follows from the rest", bytes.size(),
           needed);
  for (int step = 0; step < 12; ++step) {
    const double right = train_step(trainer), found = train_step(resumed);
    if (right != found)
      reject("the loss of step {} is {:.9g} in the resumed training, and {:.9g} without a stop", trainer.step, found, right);
  }
  check_damaged(functions, bytes, size);
}

}  // namespace

void grade_state(const Library& library, Grading& grading) {
  const StateFunctions functions{library.function<void(const SmallTrainer&, std::vector<std::byte>&)>("save_checkpoint"),
                                 library.function<bool(std::span<const std::byte>, SmallTrainer&)>("load_checkpoint")};
  for (const std::size_t size : {std::size_t{6}, std::size_t{1}, std::size_t{500}}) {
    for (const int steps : {13, 0, 1, 40}) {
      grading.begin(fmt::format("{}, saved after {}", counted(static_cast<Count>(size), "weight"), counted(steps, "step")));
      check_resumed(functions, size, steps);
    }
  }
}

}  // namespace cohort::labs::lab09_checkpoints
