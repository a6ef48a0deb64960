// Column sums, activations and conversions against ops/reference/.
#include "ops/cuda/pointwise/pointwise.hpp"

#include "ops/cuda/kernels/harness.hpp"
#include "ops/reference/activation.hpp"
#include "ops/reference/pointwise.hpp"

namespace cohort::ops::check {
namespace {

std::string name_for(DType dtype, const char* what, Count rows, Count columns, const char* how = "") {
  return text("%s %s R=%lld N=%lld%s", what, type_name(dtype), static_cast<long long>(rows), static_cast<long long>(columns),
              how);
}

// before + sums over the rows of x, and what the sum may err by.
void compare_column_sums(const std::string& name, const Buffer& actual, Input before, Input x, Count rows, Count columns) {
  Array expected = reference::bias_backward(x, rows, columns);
  Array sizes(before.begin(), before.end());
  for (std::size_t i = 0; i < x.size(); ++i) sizes[i % static_cast<std::size_t>(columns)] += std::abs(x[i]);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  compare(name, download(DType::f32, actual), expected,
          [&](std::size_t i) { return sum_error(rows) * (std::abs(sizes[i]) + 2.0 * std::abs(before[i])); });
}

void check_column_sums(DType dtype, Count rows, Count columns, Count shift) {
  const Array x = random_values(dtype, rows * columns, 1, 1.0, 0.1);
  const Array before = random_values(DType::f32, columns, 2);
  const Buffer on_device = upload(dtype, x, shift);
  const Buffer scratch(cuda::column_sums_scratch_bytes(rows, columns));
  const auto run = [&] {
    Buffer sums = upload(DType::f32, before);
    cuda::column_sums(nullptr, dtype, sums.as<float>(), on_device.data(), rows, columns, scratch.data());
    must(cudaDeviceSynchronize(), "column_sums");
    return sums;
  };
  const std::string name = name_for(dtype, "column_sums", rows, columns, shift != 0 ? " shifted" : "");
  compare_column_sums(name, run(), before, x, rows, columns);
  if (rows > 1000) repeats(name, [&] { return Outputs{run().read()}; });
}

struct Activation {
  const char* name;
  decltype(&cuda::gelu_forward) forward;
  decltype(&cuda::gelu_backward) backward;
  double (*value)(double);
  double (*slope)(double);
};
const Activation kActivations[] = {
    {"gelu", cuda::gelu_forward, cuda::gelu_backward, reference::gelu, reference::gelu_slope},
    {"relu", cuda::relu_forward, cuda::relu_backward, reference::relu, reference::relu_slope},
};

struct ActivationCase {
  DType dtype;
  Count rows, columns;
  bool bias, in_place;
};

void check_activation(const Activation& f, const ActivationCase& c) {
  const Count n = c.rows * c.columns;
  const Array x = random_values(c.dtype, n, 1, 2.0);
  const Array bias = c.bias ? random_values(c.dtype, c.columns, 2) : Array(static_cast<std::size_t>(c.columns), 0.0);
  const Array dout = random_values(c.dtype, n, 3);
  const Array before = random_values(DType::f32, c.columns, 4);
  const Buffer x_device = upload(c.dtype, x);
  const Buffer bias_device = upload(c.dtype, bias);
  const void* const bias_data = c.bias ? bias_device.data() : nullptr;
  const auto name = [&](const char* what) {
    return name_for(c.dtype, f.name, c.rows, c.columns,
                    text("%s%s %s", c.bias ? " bias" : "", c.in_place ? " in place" : "", what).c_str());
  };

  const Array out = reference::activation_forward(x, bias, c.rows, c.columns, f.value);
  const Buffer out_device = c.in_place ? upload(c.dtype, x) : poison(c.dtype, n);
  f.forward(nullptr, c.dtype, out_device.data(), c.in_place ? out_device.data() : x_device.data(), bias_data, c.rows, c.columns);
  // z times a sigmoid that is off by a few kEps, and the sum z itself.
  compare(name("out"), download(c.dtype, out_device), out, stored(c.dtype, out, [&](std::size_t i) {
            return 6.0 * kEps * (std::abs(x[i]) + std::abs(bias[i % static_cast<std::size_t>(c.columns)]));
          }));

  const auto expected = reference::activation_backward(dout, x, bias, c.rows, c.columns, f.slope);
  const Buffer scratch(cuda::column_sums_scratch_bytes(c.rows, c.columns));
  const Buffer dout_device = upload(c.dtype, dout);
  const auto run = [&](Buffer& dx, Buffer& dbias) {
    f.backward(nullptr, c.dtype, dx.data(), c.bias ? dbias.as<float>() : nullptr, c.in_place ? dx.data() : dout_device.data(),
               x_device.data(), bias_data, c.rows, c.columns, scratch.data());
    must(cudaDeviceSynchronize(), "an activation's backward");
  };
  const auto fresh_dx = [&] { return c.in_place ? upload(c.dtype, dout) : poison(c.dtype, n); };
  Buffer dx = fresh_dx();
  Buffer dbias = upload(DType::f32, before);
  run(dx, dbias);
  const Array actual_dx = download(c.dtype, dx);
  // 1 - s is off by a few kEps of 1, and multiplied by z (1.6 + 0.22 z^2).
  compare(name("dx"), actual_dx, expected.dx, stored(c.dtype, expected.dx, [&](std::size_t i) {
            const double z = std::abs(x[i]) + std::abs(bias[i % static_cast<std::size_t>(c.columns)]);
            return 2.0 * kEps * std::abs(dout[i]) * (4.0 + z * (1.6 + 0.22 * z * z));
          }));
  if (c.bias) compare_column_sums(name("dbias"), dbias, before, actual_dx, c.rows, c.columns);
  repeats(name("backward"), [&] {
    Buffer dx_again = fresh_dx();
    Buffer dbias_again = upload(DType::f32, before);
    run(dx_again, dbias_again);
    return Outputs{dx_again.read(), dbias_again.read()};
  });
}

void check_swiglu(DType dtype, Count rows, Count columns, bool in_place) {
  const Array x = random_values(dtype, rows * 2 * columns, 1, 2.0);
  const Array dout = random_values(dtype, rows * columns, 2);
  const Buffer x_device = upload(dtype, x);
  const Buffer dout_device = upload(dtype, dout);
  const auto width = static_cast<std::size_t>(columns);
  const auto up = [&](std::size_t i) { return std::abs(x[i / width * 2 * width + width + i % width]); };
  const auto gate = [&](std::size_t i) { return std::abs(x[i / width * 2 * width + i % width]); };

  const Array out = reference::swiglu_forward(x, rows, columns);
  const Buffer out_device = poison(dtype, rows * columns);
  cuda::swiglu_forward(nullptr, dtype, out_device.data(), x_device.data(), rows, columns);
  compare(name_for(dtype, "swiglu", rows, columns, " out"), download(dtype, out_device), out,
          stored(dtype, out, [&](std::size_t i) { return 6.0 * kEps * gate(i) * up(i); }));

  const Array expected = reference::swiglu_backward(dout, x, rows, columns);
  const Buffer dx = in_place ? upload(dtype, x) : poison(dtype, rows * 2 * columns);
  cuda::swiglu_backward(nullptr, dtype, dx.data(), dout_device.data(), in_place ? dx.data() : x_device.data(), rows, columns);
  compare(name_for(dtype, "swiglu", rows, columns, in_place ? " dx in place" : " dx"), download(dtype, dx), expected,
          stored(dtype, expected, [&](std::size_t i) {
            const std::size_t j = i / (2 * width) * width + i % width;
            return 16.0 * kEps * std::abs(dout[j]) * (1.0 + up(j)) * (1.0 + gate(j));
          }));
}

void check_fill(DType dtype, Count n, Count shift) {
  const Buffer filled = poison(dtype, n, shift);
  cuda::fill(nullptr, dtype, filled.data(), 0.3f, n);
  report(filled.read() == encode(dtype, Array(static_cast<std::size_t>(n), 0.3f)),
         name_for(dtype, "fill", 1, n, shift != 0 ? " shifted" : ""), "every byte is the same");
}

void check_copy(Count words) {
  const Buffer x = upload(DType::f32, random_values(DType::f32, 4 * words, 2));
  const Buffer out(16 * words);
  cuda::copy(nullptr, out.data(), x.data(), 16 * words);
  report(out.read() == x.read(), text("copy of %lld bytes", static_cast<long long>(16 * words)), "every byte is the same");
}

}  // namespace

void check_pointwise() {
  for (const DType dtype : kTypes) {
    for (const auto& [rows, columns] : std::vector<std::pair<Count, Count>>{{1, 1},
                                                                            {3, 5},
                                                                            {257, 768},
                                                                            {1000, 1600},
                                                                            {100, 64},
                                                                            {70001, 8},
                                                                            {2, 100000},
                                                                            {4, 600000},
                                                                            {1501, 333},
                                                                            {5, 2097200}}) {
      check_column_sums(dtype, rows, columns, 0);
    }
    check_column_sums(dtype, 1200, 256, 1);
    for (const Activation& f : kActivations) {
      check_activation(f, {dtype, 1, 1, true, false});
      check_activation(f, {dtype, 5, 7, true, false});
      check_activation(f, {dtype, 33, 256, false, false});
      check_activation(f, {dtype, 1003, 384, true, true});
      check_activation(f, {dtype, 40, 3072, true, false});
      check_activation(f, {dtype, 17, 1001, false, true});
    }
    check_swiglu(dtype, 1, 1, false);
    check_swiglu(dtype, 7, 9, false);
    check_swiglu(dtype, 333, 40, true);
    check_swiglu(dtype, 19, 5632, false);
  }
  for (const Count n : {1, 7, 4096, 1000003}) {
    for (const DType dtype : kTypes) {
      for (const Count shift : {0, 1}) check_fill(dtype, n, shift);
    }
    check_copy(n);
  }
}

}  // namespace cohort::ops::check
