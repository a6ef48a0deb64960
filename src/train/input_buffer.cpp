#include "train/input_buffer.hpp"

#include <cstring>
#include <thread>

#include "base/counting.hpp"
#include "base/error.hpp"
#include "ops/cross_entropy.hpp"

namespace cohort {
namespace {

constexpr Bytes kAlignment = 256;

Bytes rounded_up(std::size_t bytes) { return (static_cast<Bytes>(bytes) + kAlignment - 1) / kAlignment * kAlignment; }

// The arrays of an input, one behind the other.
Bytes bytes_of(const ModelInput& input) {
  return rounded_up(input.inputs.size_bytes()) + rounded_up(input.targets.size_bytes()) +
         rounded_up(input.features.size_bytes()) + rounded_up(input.slots.size_bytes()) +
         rounded_up(input.documents.first_keys.size_bytes()) + rounded_up(input.documents.positions.size_bytes());
}

}  // namespace

ModelInput as_input(const Batch& batch, std::span<const Count> slots) {
  return {batch.samples, batch.inputs, batch.targets, batch.features, slots, {batch.first_keys, batch.positions}};
}

void InputBuffer::grow(Bytes bytes) {
  if (memory_.defined() && memory_.bytes() >= bytes) return;
  gpu::synchronize();  // what is under way may still use the old memory
  memory_ = Tensor::zeros(kLabel, {bytes}, DType::u8, device_);
  for (Staging& staging : staging_) {
    staging.memory = Tensor::pinned("input on the host", {bytes}, DType::u8);
    staging.copied.reset();
  }
}

void InputBuffer::check(const ModelInput& host) const {
  for (std::size_t i = 0; i < host.inputs.size(); ++i) {
    COHORT_CHECK(host.inputs[i] >= 0 && host.inputs[i] < classes_, "token {} at position {} is outside the vocabulary of {}",
                 host.inputs[i], i, classes_);
  }
  for (std::size_t i = 0; i < host.targets.size(); ++i) {
    COHORT_CHECK(host.targets[i] == ops::kIgnoredTarget || (host.targets[i] >= 0 && host.targets[i] < classes_),
                 "target {} at position {} is outside the {} classes", host.targets[i], i, classes_);
  }
}

ModelInput InputBuffer::put(const ModelInput& host) {
  if (device_ == DeviceKind::cpu) return host;
  check(host);
  const Bytes bytes = bytes_of(host);
  grow(bytes);
  Staging& staging = staging_[static_cast<std::size_t>(turn_)];
  turn_ = 1 - turn_;
  while (staging.copied && !staging.copied->happened()) std::this_thread::yield();
  Bytes used = 0;
  const auto place = [&]<class T>(std::span<const T> values) {
    if (!counting()) std::memcpy(staging.memory.data<std::uint8_t>() + used, values.data(), values.size_bytes());
    const auto* on_device = reinterpret_cast<const T*>(memory_.data<std::uint8_t>() + used);
    used += rounded_up(values.size_bytes());
    return std::span<const T>(on_device, values.size());
  };
  const ModelInput input{host.samples,        place(host.inputs),
                         place(host.targets), place(host.features),
                         place(host.slots),   {place(host.documents.first_keys), place(host.documents.positions)}};
  gpu::copy_async(memory_.raw(), staging.memory.raw(), bytes, gpu::compute_stream());
  if (!staging.copied) staging.copied.emplace();
  staging.copied->record(gpu::compute_stream());
  return input;
}

}  // namespace cohort
