// The share of the copy bandwidth that each kernel reaches at the sizes of real training steps, on random data. Every call works
// on other memory than the call before, and on more than the second-level cache holds.
#include <algorithm>
#include <memory>

#include "ops/cuda/embedding/embedding.hpp"
#include "ops/cuda/kernels/harness.hpp"
#include "ops/cuda/loss/cross_entropy.hpp"
#include "ops/cuda/norm/norm.hpp"
#include "ops/cuda/optimizer/adamw.hpp"
#include "ops/cuda/pointwise/pointwise.hpp"
#include "ops/cuda/pointwise/rope.hpp"

namespace cohort::ops::check {
namespace {

constexpr Count kRows = 65536;
constexpr DType kType = DType::bf16;
constexpr int kTurns = 2;  // copies of every large array

// Random numbers of a type: a block of them made on the host, then doubled on the device until the array is full.
Buffer random_buffer(DType dtype, Count elements, std::uint32_t stream, double scale = 1.0) {
  constexpr Count kBlock = 1 << 18;
  const Bytes bytes = elements * bytes_of(dtype);
  Buffer buffer(bytes);
  const auto block = encode(dtype, random_values(dtype, std::min(elements, kBlock), stream, scale));
  Bytes filled = static_cast<Bytes>(block.size());
  must(cudaMemcpy(buffer.data(), block.data(), block.size(), cudaMemcpyHostToDevice), "upload");
  while (filled < bytes) {
    const Bytes more = std::min(filled, bytes - filled);
    must(cudaMemcpy(buffer.as<char>() + filled, buffer.data(), static_cast<std::size_t>(more), cudaMemcpyDeviceToDevice), "copy");
    filled += more;
  }
  return buffer;
}

// As many arrays as there are turns.
struct Rotated {
  Rotated(DType dtype, Count elements, std::uint32_t stream, double scale = 1.0) {
    for (int turn = 0; turn < kTurns; ++turn) buffers.push_back(random_buffer(dtype, elements, stream, scale));
  }
  void* operator[](int turn) const { return buffers[static_cast<std::size_t>(turn)].data(); }
  std::vector<Buffer> buffers;
};

// Microseconds of one call: the median over batches of calls that follow each other without a gap.
double microseconds(const std::function<void(int)>& call) {
  constexpr int kBatches = 7;
  constexpr int kCalls = 8;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  must(cudaEventCreate(&begin), "cudaEventCreate");
  must(cudaEventCreate(&end), "cudaEventCreate");
  for (int i = 0; i < 2 * kTurns; ++i) call(i % kTurns);
  std::vector<double> times;
  for (int batch = 0; batch < kBatches; ++batch) {
    must(cudaEventRecord(begin), "cudaEventRecord");
    for (int i = 0; i < kCalls; ++i) call(i % kTurns);
    must(cudaEventRecord(end), "cudaEventRecord");
    must(cudaEventSynchronize(end), "running a kernel");
    must(cudaGetLastError(), "launching a kernel");
    float milliseconds = 0.0f;
    must(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    times.push_back(1e3 * static_cast<double>(milliseconds) / kCalls);
  }
  must(cudaEventDestroy(begin), "cudaEventDestroy");
  must(cudaEventDestroy(end), "cudaEventDestroy");
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return times[kBatches / 2];
}

double copy_rate = 0.0;  // bytes per microsecond

void row(const std::string& name, Count bytes, const std::function<void(int)>& call) {
  const double time = microseconds(call);
  const double rate = static_cast<double>(bytes) / time;
  if (copy_rate == 0.0) copy_rate = rate;
  std::printf("%-46s %9.1f MB %9.1f us %8.0f GB/s %6.1f %%\n", name.c_str(), static_cast<double>(bytes) * 1e-6, time, rate * 1e-3,
              100.0 * rate / copy_rate);
}

std::string sized(const char* name, Count columns) { return text("%s bf16 C=%lld", name, static_cast<long long>(columns)); }

void time_norms(Count columns) {
  const Count n = kRows * columns;
  const Rotated x(kType, n, 1);
  const Rotated out(kType, n, 2);
  const Rotated dx(kType, n, 3);
  const Buffer weight = random_buffer(kType, columns, 4);
  const Buffer bias = random_buffer(kType, columns, 5);
  const Buffer mean = random_buffer(DType::f32, kRows, 6, 0.01);
  const Buffer rstd = upload(DType::f32, Array(kRows, 1.0));
  const Buffer dweight = random_buffer(DType::f32, columns, 7);
  const Buffer dbias = random_buffer(DType::f32, columns, 8);
  const Buffer scratch(cuda::norm_backward_scratch_bytes(kRows, columns));
  row(sized("layernorm_forward", columns), 4 * n, [&](int turn) {
    cuda::layernorm_forward(nullptr, kType, out[turn], mean.as<float>(), rstd.as<float>(), x[turn], weight.data(), bias.data(),
                            kRows, columns, 1e-5f);
  });
  row(sized("rmsnorm_forward", columns), 4 * n, [&](int turn) {
    cuda::rmsnorm_forward(nullptr, kType, out[turn], rstd.as<float>(), x[turn], weight.data(), kRows, columns, 1e-5f);
  });
  row(sized("layernorm_backward", columns), 8 * n, [&](int turn) {
    cuda::layernorm_backward(nullptr, kType, dx[turn], dweight.as<float>(), dbias.as<float>(), out[turn], x[turn], weight.data(),
                             mean.as<float>(), rstd.as<float>(), kRows, columns, scratch.data());
  });
  row(sized("rmsnorm_backward", columns), 8 * n, [&](int turn) {
    cuda::rmsnorm_backward(nullptr, kType, dx[turn], dweight.as<float>(), out[turn], x[turn], weight.data(), rstd.as<float>(),
                           kRows, columns, scratch.data());
  });
}

void time_pointwise(Count columns) {
  const Count n = kRows * columns;
  const Rotated x(kType, n, 1);
  const Rotated dout(kType, n, 2);
  const Rotated out(kType, n, 3);
  const Buffer bias = random_buffer(kType, columns, 4);
  const Buffer dbias = random_buffer(DType::f32, columns, 5);
  const Buffer scratch(cuda::column_sums_scratch_bytes(kRows, columns));
  row(sized("column_sums", columns), 2 * n,
      [&](int turn) { cuda::column_sums(nullptr, kType, dbias.as<float>(), x[turn], kRows, columns, scratch.data()); });
  row(sized("gelu_forward", columns), 4 * n,
      [&](int turn) { cuda::gelu_forward(nullptr, kType, out[turn], x[turn], bias.data(), kRows, columns); });
  row(sized("gelu_backward", columns), 6 * n, [&](int turn) {
    cuda::gelu_backward(nullptr, kType, out[turn], dbias.as<float>(), dout[turn], x[turn], bias.data(), kRows, columns,
                        scratch.data());
  });
  row(sized("relu_backward", columns), 6 * n, [&](int turn) {
    cuda::relu_backward(nullptr, kType, out[turn], dbias.as<float>(), dout[turn], x[turn], bias.data(), kRows, columns,
                        scratch.data());
  });
  // Each row of x and out seen as gate and up: half as many rows.
  row(sized("swiglu_forward, half the rows", columns), 3 * n,
      [&](int turn) { cuda::swiglu_forward(nullptr, kType, out[turn], x[turn], kRows / 2, columns); });
  row(sized("swiglu_backward, half the rows", columns), 5 * n,
      [&](int turn) { cuda::swiglu_backward(nullptr, kType, out[turn], dout[turn], x[turn], kRows / 2, columns); });
}

void time_rope() {
  for (const Count head_size : {Count{64}, Count{128}}) {
    const AttentionShape s{32, 2048, 2048 / head_size, 512 / head_size, head_size};
    const Rotated qkv(kType, s.batch * s.tokens * s.packed_width(), 1);
    const Buffer cosines = random_buffer(DType::f32, s.tokens * head_size / 2, 2);
    const Buffer sines = random_buffer(DType::f32, s.tokens * head_size / 2, 3);
    row(text("rope_forward bf16 HS=%lld NH*HS=2048", static_cast<long long>(head_size)),
        4 * s.batch * s.tokens * (s.heads + s.kv_heads) * head_size,
        [&](int turn) { cuda::rope_forward(nullptr, kType, s, qkv[turn], cosines.as<float>(), sines.as<float>()); });
  }
}

void time_cross_entropy(DType dtype, Count rows, Count vocabulary, Count stride) {
  const Rotated logits(dtype, rows * stride, 1, 3.0);
  const Buffer targets = upload(Tokens(static_cast<std::size_t>(rows), 17));
  const Buffer loss = upload(std::vector<double>{0.0});
  const Buffer row_losses = poison(DType::f32, rows);
  const auto name = [&](const char* form) {
    return text("cross_entropy %s %s V=%lld", form, type_name(dtype), static_cast<long long>(vocabulary));
  };
  row(name("loss"), rows * vocabulary * bytes_of(dtype), [&](int turn) {
    cuda::cross_entropy_forward(nullptr, dtype, loss.as<double>(), row_losses.as<float>(), logits[turn],
                                targets.as<std::int32_t>(), rows, vocabulary, stride);
  });
  row(name("and gradient"), 2 * rows * vocabulary * bytes_of(dtype), [&](int turn) {
    cuda::cross_entropy_forward_backward(nullptr, dtype, loss.as<double>(), row_losses.as<float>(), logits[turn],
                                         targets.as<std::int32_t>(), rows, vocabulary, stride, 1.0f);
  });
}

void time_embedding(Count columns, Count vocabulary) {
  constexpr Count kTokens = 1024;
  const CounterRandom random(2024, RandomPurpose::test, 11);
  Tokens tokens;
  std::vector<bool> seen(static_cast<std::size_t>(vocabulary), false);
  for (Count r = 0; r < kRows; ++r) {
    const double place = std::pow(random.uniform(static_cast<std::uint64_t>(r)), 4.0);  // a few tokens most of the time
    tokens.push_back(static_cast<std::int32_t>(place * static_cast<double>(vocabulary)));
    seen[static_cast<std::size_t>(tokens.back())] = true;
  }
  const Count distinct = std::count(seen.begin(), seen.end(), true);
  const Count n = kRows * columns;
  const Rotated activations(kType, n, 1);
  const Buffer table = random_buffer(kType, vocabulary * columns, 2);
  const Buffer places = random_buffer(kType, kTokens * columns, 3);
  const Buffer dtable = random_buffer(DType::f32, vocabulary * columns, 4);
  const Buffer dplaces = random_buffer(DType::f32, kTokens * columns, 5);
  const Buffer tokens_device = upload(tokens);
  const Buffer scratch(cuda::embedding_backward_scratch_bytes(kRows, kTokens, columns));
  const auto name = [&](const char* form) {
    return text("embedding_%s bf16 C=%lld V=%lld", form, static_cast<long long>(columns), static_cast<long long>(vocabulary));
  };
  row(name("forward"), 2 * (n + (distinct + kTokens) * columns), [&](int turn) {
    cuda::embedding_forward(nullptr, kType, activations[turn], tokens_device.as<std::int32_t>(), table.data(), places.data(),
                            kRows, kTokens, columns);
  });
  row(name("backward"), 4 * n + 8 * (distinct + kTokens) * columns, [&](int turn) {
    cuda::embedding_backward(nullptr, kType, dtable.as<float>(), dplaces.as<float>(), tokens_device.as<std::int32_t>(),
                             activations[turn], kRows, vocabulary, kTokens, columns, scratch.data());
  });
}

void time_optimizer() {
  constexpr Count kElements = 124000000;
  const Buffer weight = random_buffer(DType::f32, kElements, 1);
  const Buffer m = random_buffer(DType::f32, kElements, 2);
  const Buffer squares = random_buffer(DType::f32, kElements, 3);
  const Buffer gradient = random_buffer(DType::f32, kElements, 4, 0.01);
  const Buffer working = random_buffer(kType, kElements, 5);
  must(cudaMemset(squares.data(), 0x38, static_cast<std::size_t>(squares.bytes())), "cudaMemset");  // 4.4e-5: v is not negative
  std::vector<AdamWRange> ranges;
  for (Count at = 0; at < kElements;) {  // a matrix and a bias, as in a model of 75 linear layers
    const Count end = std::min(kElements, at + (ranges.size() % 2 == 0 ? 1650000 : 3072));
    ranges.push_back({at, end, ranges.size() % 2 == 0 ? 0.1f : 0.0f});
    at = end;
  }
  const Buffer ranges_device = upload(ranges);
  const Buffer scalars = upload(std::vector<OptimizerScalars>{{1.0f, 0}});
  const Buffer sum = upload(std::vector<double>{0.0});
  const Buffer scratch(cuda::sum_of_squares_scratch_bytes());
  row("adamw n=124M, bf16 working copy", 30 * kElements, [&](int) {
    cuda::adamw(nullptr, weight.as<float>(), m.as<float>(), squares.as<float>(), gradient.as<float>(), kType, working.data(),
                ranges_device.as<AdamWRange>(), static_cast<int>(ranges.size()), kElements, {1e-4f, 0.9f, 0.95f, 1e-8f, 10},
                scalars.as<OptimizerScalars>());
  });
  row("sum_of_squares n=124M", 4 * kElements,
      [&](int) { cuda::sum_of_squares(nullptr, sum.as<double>(), gradient.as<float>(), kElements, scratch.data()); });
}

}  // namespace

void time_kernels() {
  {
    const Count n = kRows * 2048;
    const Rotated from(kType, n, 1);
    const Rotated to(kType, n, 2);
    row("copy, the ceiling", 4 * n, [&](int turn) { cuda::copy(nullptr, to[turn], from[turn], 2 * n); });
    row("cudaMemcpyAsync, for comparison", 4 * n, [&](int turn) {
      must(cudaMemcpyAsync(to[turn], from[turn], static_cast<std::size_t>(2 * n), cudaMemcpyDeviceToDevice, nullptr), "copy");
    });
  }
  for (const Count columns : {Count{768}, Count{1280}, Count{1600}, Count{2048}}) time_norms(columns);
  for (const Count columns : {Count{768}, Count{1600}, Count{2048}, Count{3072}}) time_pointwise(columns);
  time_rope();
  time_cross_entropy(DType::bf16, 16384, 50257, 50304);
  time_cross_entropy(DType::bf16, 16384, 32000, 32000);
  time_cross_entropy(DType::bf16, 8192, 128256, 128256);
  time_cross_entropy(DType::f32, 8192, 50257, 50304);
  time_cross_entropy(DType::bf16, 262144, 65, 128);
  time_embedding(768, 50257);
  time_embedding(2048, 32000);
  time_embedding(768, 65);
  time_optimizer();
}

}  // namespace cohort::ops::check
