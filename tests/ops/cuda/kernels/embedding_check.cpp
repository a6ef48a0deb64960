// Token and position embeddings against ops/reference/embedding.hpp.
#include "ops/cuda/embedding/embedding.hpp"

#include "ops/cuda/kernels/harness.hpp"
#include "ops/reference/embedding.hpp"

namespace cohort::ops::check {
namespace {

enum class Draw { uniform, one_token, skewed };

struct Case {
  DType dtype;
  Count batch, tokens, vocabulary, columns;
  bool positions;
  Draw draw = Draw::uniform;
  Count shift = 0;

  Count rows() const { return batch * tokens; }
  std::string name(const char* what) const {
    return text("embedding %s B=%lld T=%lld V=%lld C=%lld%s%s %s", type_name(dtype), static_cast<long long>(batch),
                static_cast<long long>(tokens), static_cast<long long>(vocabulary), static_cast<long long>(columns),
                positions ? " positions" : "",
                draw == Draw::one_token ? " one token"
                : draw == Draw::skewed  ? " skewed"
                                        : "",
                what);
  }
};

Tokens draw_tokens(const Case& c) {
  const CounterRandom random(2024, RandomPurpose::test, 9);
  Tokens result;
  for (Count r = 0; r < c.rows(); ++r) {
    double place = random.uniform(static_cast<std::uint64_t>(r));
    if (c.draw == Draw::one_token) place = 0.999;
    if (c.draw == Draw::skewed) place = std::pow(place, 6.0);  // a few tokens most of the time, as in text
    result.push_back(static_cast<std::int32_t>(place * static_cast<double>(c.vocabulary)));
  }
  return result;
}

void check(const Case& c) {
  const Tokens tokens = draw_tokens(c);
  const Array table = random_values(c.dtype, c.vocabulary * c.columns, 1);
  const Array places = c.positions ? random_values(c.dtype, c.tokens * c.columns, 2) : Array{};
  const Array dout = random_values(c.dtype, c.rows() * c.columns, 3);
  const Buffer tokens_device = upload(tokens);
  const Buffer table_device = upload(c.dtype, table, c.shift);
  const Buffer places_device = upload(c.dtype, places, c.shift);
  const Buffer out = poison(c.dtype, c.rows() * c.columns, c.shift);
  cuda::embedding_forward(nullptr, c.dtype, out.data(), tokens_device.as<std::int32_t>(), table_device.data(),
                          c.positions ? places_device.data() : nullptr, c.rows(), c.tokens, c.columns);
  const Array expected = reference::embedding_forward(tokens, table, places, c.columns);
  compare(c.name("out"), download(c.dtype, out), expected, stored(c.dtype, expected, [](std::size_t) { return 8.0 * kEps; }));

  const Array table_before = random_values(DType::f32, c.vocabulary * c.columns, 4);
  const Array places_before = random_values(DType::f32, c.tokens * c.columns, 5);
  const Buffer dout_device = upload(c.dtype, dout, c.shift);
  const Buffer scratch(cuda::embedding_backward_scratch_bytes(c.rows(), c.tokens, c.columns));
  struct Gradients {
    Buffer table, places;
  };
  const auto run = [&] {
    Gradients g{upload(DType::f32, table_before), upload(DType::f32, places_before)};
    cuda::embedding_backward(nullptr, c.dtype, g.table.as<float>(), c.positions ? g.places.as<float>() : nullptr,
                             tokens_device.as<std::int32_t>(), dout_device.data(), c.rows(), c.vocabulary, c.tokens, c.columns,
                             scratch.data());
    must(cudaGetLastError(), "launching embedding_backward");
    must(cudaDeviceSynchronize(), "embedding_backward");
    return g;
  };
  const auto check_table = [&](const char* what, const Buffer& actual, const Array& before, const Tokens& indices,
                               Count entries) {
    Array sum = reference::table_backward(indices, dout, entries, c.columns);
    Array sizes(sum.size(), 0.0);
    std::vector<Count> readers(static_cast<std::size_t>(entries), 0);
    const auto columns = static_cast<std::size_t>(c.columns);
    for (std::size_t r = 0; r < indices.size(); ++r) {
      const auto entry = static_cast<std::size_t>(indices[r]);
      ++readers[entry];
      for (std::size_t i = 0; i < columns; ++i) sizes[entry * columns + i] += std::abs(dout[r * columns + i]);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
    // An entry that nobody read keeps its bits.
    compare(c.name(what), download(DType::f32, actual), sum, [&](std::size_t i) {
      const Count n = readers[i / columns];
      return n == 0 ? 0.0 : sum_error(n) * (sizes[i] + std::abs(before[i]));
    });
  };
  const Gradients g = run();
  check_table("dtable", g.table, table_before, tokens, c.vocabulary);
  if (c.positions) {
    Tokens positions;
    for (Count r = 0; r < c.rows(); ++r) positions.push_back(static_cast<std::int32_t>(r % c.tokens));
    check_table("dpositions", g.places, places_before, positions, c.tokens);
  }
  repeats(c.name("backward"), [&] {
    const Gradients again = run();
    return Outputs{again.table.read(), again.places.read()};
  });
}

}  // namespace

void check_embedding() {
  for (const DType dtype : kTypes) {
    check({dtype, 1, 1, 1, 1, true});
    check({dtype, 1, 65, 3, 7, false});
    check({dtype, 2, 64, 65, 64, true, Draw::one_token});
    check({dtype, 3, 333, 65, 96, true});
    check({dtype, 8, 1024, 65, 128, true, Draw::skewed});
    check({dtype, 4, 512, 50257, 64, true, Draw::skewed});
    check({dtype, 2, 1000, 128256, 40, false});
    check({dtype, 3, 100, 300, 768, true, Draw::skewed, 1});
  }
  check({DType::bf16, 16, 4099, 257, 8, true, Draw::skewed});
  check({DType::f32, 33, 2048, 70000, 4, false, Draw::one_token});
  check({DType::bf16, 1, 65536, 65, 64, true});  // more positions than partial sums of columns have room
}

}  // namespace cohort::ops::check
