// Rotary positions against ops/reference/rope.hpp.
#include "ops/cuda/pointwise/rope.hpp"

#include "ops/cuda/kernels/harness.hpp"
#include "ops/reference/rope.hpp"

namespace cohort::ops::check {
namespace {

constexpr double kTheta = 10000.0;

void check(DType dtype, const AttentionShape& s, Count shift) {
  const reference::Heads heads{s.batch, s.tokens, s.heads, s.kv_heads, s.head_size};
  const Count n = s.batch * s.tokens * s.packed_width();
  const Count half = s.head_size / 2;
  const Array qkv = random_values(dtype, n, 1);
  Array cosines;
  Array sines;
  for (Count t = 0; t < s.tokens; ++t) {
    for (Count i = 0; i < half; ++i) {
      const double angle = reference::rope_angle(t, i, s.head_size, kTheta);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  const Buffer cosines_device = upload(DType::f32, cosines);
  const Buffer sines_device = upload(DType::f32, sines);
  const Buffer device = upload(dtype, qkv, shift);
  const auto name = [&](const char* what) {
    return text("rope %s B=%lld T=%lld NH=%lld NKV=%lld HS=%lld shift=%lld %s", type_name(dtype), static_cast<long long>(s.batch),
                static_cast<long long>(s.tokens), static_cast<long long>(s.heads), static_cast<long long>(s.kv_heads),
                static_cast<long long>(s.head_size), static_cast<long long>(shift), what);
  };
  // Coordinates of up to 5, table entries rounded to fp32, two products and a sum.
  const auto computed = [](std::size_t) { return 5.0 * 2.0 * kEps; };

  cuda::rope_forward(nullptr, dtype, s, device.data(), cosines_device.as<float>(), sines_device.as<float>());
  const Array turned = download(dtype, device);
  const Array expected = reference::rope(qkv, heads, kTheta, 1);
  compare(name("forward"), turned, expected, stored(dtype, expected, computed));

  cuda::rope_backward(nullptr, dtype, s, device.data(), cosines_device.as<float>(), sines_device.as<float>());
  const Array back = reference::rope(turned, heads, kTheta, -1);
  compare(name("backward"), download(dtype, device), back, stored(dtype, back, computed));
}

}  // namespace

void check_rope() {
  for (const DType dtype : kTypes) {
    for (const Count head_size : {Count{2}, Count{20}, Count{64}, Count{96}, Count{128}, Count{1040}}) {
      check(dtype, {2, 33, 6, 2, head_size}, 0);
      check(dtype, {1, 5, 3, 1, head_size}, 0);
    }
    check(dtype, {2, 40, 32, 8, 64}, 0);
    check(dtype, {2, 40, 4, 4, 64}, 1);
  }
}

}  // namespace cohort::ops::check
