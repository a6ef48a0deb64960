// apply_rotary: by the angles of the first one
#include <cohort/lab01_transformer.hpp>
#include <span>

void apply_rotary(std::span<float> out, std::span<const float> x, std::span<const float> cosines, std::span<const float> sines,
                  std::int64_t head_size) {
  const auto size = static_cast<std::size_t>(head_size), half = size / 2;
  for (std::size_t t = 0; t < x.size() / size; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      const std::size_t a = t * size + i, b = a + half;
      const float c = cosines[i], s = sines[i];
      out[a] = x[a] * c - x[b] * s;
      out[b] = x[b] * c + x[a] * s;
    }
  }
}
