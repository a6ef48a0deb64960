// Embeddings against their reference.
#include "ops/embedding.hpp"

#include <gtest/gtest.h>

#include "ops/compare.hpp"
#include "ops/reference/embedding.hpp"

namespace cohort::ops {
namespace {

struct EmbeddingProblem {
  EmbeddingProblem(Count batch_, Count tokens_, Count vocabulary_, Count width_, bool positions_)
      : batch(batch_), tokens(tokens_), vocabulary(vocabulary_), width(width_), positions(positions_) {
    const Count rows = batch * tokens;
    ids = random_indices(rows, vocabulary, 1);
    for (Count r = 0; r < rows; ++r) places.push_back(static_cast<std::int32_t>(r % tokens));
    table = random_values(vocabulary * width, 2);
    position_table = positions ? random_values(tokens * width, 3) : Array{};
    dout = random_values(rows * width, 4);
    dtable_before = random_values(vocabulary * width, 5);
    dposition_before = random_values(tokens * width, 6);
  }

  Count batch, tokens, vocabulary, width;
  bool positions;
  std::vector<std::int32_t> ids, places;
  Array table, position_table, dout, dtable_before, dposition_before;
};

Tensor run_embedding_forward(const EmbeddingProblem& p) {
  const Tensor out = filled({p.batch * p.tokens, p.width}, kGarbage);
  const Tensor position_table = p.positions ? tensor_of(p.position_table, {p.tokens, p.width}) : Tensor{};
  embedding_forward(test_exec(), out, Indices(p.ids).span(), tensor_of(p.table, {p.vocabulary, p.width}), position_table);
  return out;
}

// {dtoken_table, dposition_table}, or the first alone.
std::vector<Tensor> run_embedding_backward(const EmbeddingProblem& p) {
  const Tensor dtable = tensor_of(p.dtable_before, {p.vocabulary, p.width});
  const Tensor dposition = p.positions ? tensor_of(p.dposition_before, {p.tokens, p.width}) : Tensor{};
  embedding_backward(test_exec(), dtable, dposition, Indices(p.ids).span(), tensor_of(p.dout, {p.batch * p.tokens, p.width}));
  if (!p.positions) return {dtable};
  return {dtable, dposition};
}

// Of a table whose entries sum the rows of dout that read them, onto what was there.
Array table_tolerance(std::span<const std::int32_t> indices, Input dout, Input before, Count width) {
  Array sizes(before.size()), readers(before.size(), 1.0);
  for (std::size_t i = 0; i < before.size(); ++i) sizes[i] = std::abs(before[i]);
  for (Count i = 0; i < static_cast<Count>(dout.size()); ++i) {
    const Count entry = indices[i / width] * width + i % width;
    sizes[entry] += std::abs(dout[i]);
    readers[entry] += 1.0;
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] *= sum_error(static_cast<Count>(readers[i]));
  return sizes;
}

void check(const EmbeddingProblem& p) {
  SCOPED_TRACE(fmt::format("B {} T {} V {} C {}, positions {}", p.batch, p.tokens, p.vocabulary, p.width, p.positions));
  // One addition of two numbers below 5, or none at all.
  EXPECT_TRUE(close(run_embedding_forward(p), reference::embedding_forward(p.ids, p.table, p.position_table, p.width),
                    p.positions ? 5.0 * kEps : 0.0));
  const std::vector<Tensor> backward = run_embedding_backward(p);
  EXPECT_TRUE(close(backward[0], sum(p.dtable_before, reference::table_backward(p.ids, p.dout, p.vocabulary, p.width)),
                    table_tolerance(p.ids, p.dout, p.dtable_before, p.width)));
  if (p.positions) {
    EXPECT_TRUE(close(backward[1], sum(p.dposition_before, reference::table_backward(p.places, p.dout, p.tokens, p.width)),
                      table_tolerance(p.places, p.dout, p.dposition_before, p.width)));
  }
  EXPECT_TRUE(repeats([&] { return run_embedding_backward(p); }));
}

TEST(Embedding, MatchesTheReference) {
  for (const bool positions : {false, true}) {
    for (const Count width : {1, 3, 17, 65, 130}) {
      check(EmbeddingProblem(1, 1, 2, width, positions));
      check(EmbeddingProblem(3, 7, 65, width, positions));
      check(EmbeddingProblem(2, 100, 2, width, positions));  // each entry is read many times
      check(EmbeddingProblem(4, 33, 1000, width, positions));
    }
  }
}

TEST(Embedding, TokenOutsideTheVocabularyIsNamed) {
  if (test_device() == DeviceKind::gpu) GTEST_SKIP() << "the host does not see tokens that lie on a GPU";
  for (const std::int32_t bad : {10, -1, 2'000'000'000}) {
    EmbeddingProblem p(2, 5, 10, 3, true);
    p.ids[7] = bad;
    p.ids[9] = 4711;  // not the first
    try {
      run_embedding_forward(p);
      FAIL() << "token " << bad << " of a vocabulary of 10 was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(bad)), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("4711"), std::string::npos) << error.what();
    }
  }
}

TEST(Embedding, TheComparisonRejectsWrongTables) {
  const EmbeddingProblem p(3, 7, 5, 17, true);
  const std::vector<Tensor> backward = run_embedding_backward(p);
  const Array table = reference::table_backward(p.ids, p.dout, 5, 17),
              tolerance = table_tolerance(p.ids, p.dout, p.dtable_before, 17);
  EXPECT_FALSE(close(backward[0], table, tolerance));            // overwritten
  EXPECT_FALSE(close(backward[0], p.dtable_before, tolerance));  // nothing added
  EXPECT_FALSE(
      close(run_embedding_forward(p), reference::embedding_forward(p.ids, p.table, {}, 17), 5.0 * kEps));  // positions forgotten
}

}  // namespace
}  // namespace cohort::ops
