// Columns copied between rows of different width and type.
#include "ops/copy_columns.hpp"

#include <gtest/gtest.h>

#include "base/work_tape.hpp"
#include "ops/compare.hpp"
#include "tensor/counting_scope.hpp"

namespace cohort::ops {
namespace {

constexpr Count kRows = 7;

// The values as a tensor of this type keeps them.
Array rounded(DType type, Input values) { return values_of(tensor_of_type(type, values, {static_cast<Count>(values.size())})); }

TEST(CopyColumns, MovesColumnsAndLeavesTheOthers) {
  const Array from = random_values(kRows * 10, 1), to = random_values(kRows * 6, 2);
  for (const DType of_from : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType of_to : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor target = tensor_of_type(of_to, to, {kRows, 6});
      copy_columns(test_exec(), target, 1, tensor_of_type(of_from, from, {kRows, 10}), 5, 4);
      Array expected = rounded(of_to, to);
      for (Count r = 0; r < kRows; ++r) {
        for (Count c = 0; c < 4; ++c) expected[r * 6 + 1 + c] = rounded(of_from, from)[r * 10 + 5 + c];
      }
      EXPECT_EQ(values_of(target), rounded(of_to, expected)) << name_of(of_from) << " to " << name_of(of_to);
    }
  }
}

// What a profile is asked for (plan/profile.hpp): rows as long as what is copied, however wide the tensors are.
TEST(CopyColumns, NotesTheColumnsThatItCopies) {
  const Tensor from = tensor_of_type(DType::bf16, random_values(kRows * 10, 1), {kRows, 10}), to = filled({kRows, 6}, 0.0f);
  WorkTape tape;
  {
    const CountingScope counting;
    const ListeningScope listens(tape);
    copy_columns(test_exec(), to, 1, from, 5, 4);
  }
  ASSERT_EQ(tape.entries().size(), 1u);
  const auto& work = std::get<OpWork>(tape.entries().front());
  EXPECT_EQ(work.op, "copy_columns");
  EXPECT_EQ(work.dtype, DType::bf16);
  EXPECT_EQ(work.m, kRows);
  EXPECT_EQ(work.n, 4);
  EXPECT_EQ(work.bytes, kRows * 4 * (2 + 4)) << "read in 16 bits, written in 32";
}

TEST(CopyColumns, RefusesColumnsThatAreNotThere) {
  const Tensor narrow = filled({kRows, 4}, 0.0f), wide = filled({kRows, 9}, 0.0f);
  EXPECT_THROW(copy_columns(test_exec(), narrow, 2, wide, 0, 3), Error);
  EXPECT_THROW(copy_columns(test_exec(), wide, 0, narrow, 2, 3), Error);
  EXPECT_THROW(copy_columns(test_exec(), wide, 0, filled({kRows + 1, 4}, 0.0f), 0, 3), Error);
}

}  // namespace
}  // namespace cohort::ops
