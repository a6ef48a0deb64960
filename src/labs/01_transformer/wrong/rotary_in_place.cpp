// apply_rotary: row 0, element 2 is
#include <cohort/lab01_transformer.hpp>
#include <span>

// The second of a pair is made from the first as it is already turned.
void apply_rotary(std::span<float> out, std::span<const float> x, std::span<const float> cosines, std::span<const float> sines,
                  std::int64_t head_size) {
  const auto size = static_cast<std::size_t>(head_size), half = size / 2;
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i];
  for (std::size_t t = 0; t < x.size() / size; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      float& a = out[t * size + i];
      float& b = out[t * size + half + i];
      a = a * cosines[t * half + i] - b * sines[t * half + i];
      b = b * cosines[t * half + i] + a * sines[t * half + i];
    }
  }
}
