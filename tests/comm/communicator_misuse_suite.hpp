// Wrong arguments: the same Error from every backend, before anything is communicated, naming operation, group and rank. A test
// program instantiates the suite for its backends.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backends.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {

template <class Backend>
class CommunicatorMisuseTest : public CommunicatorTest<Backend> {
 protected:
  float x_[8] = {};
  std::int32_t whole_ = 0;
};
TYPED_TEST_SUITE_P(CommunicatorMisuseTest);

TYPED_TEST_P(CommunicatorMisuseTest, Counts) {
  Communicator& comm = *this->comm_;
  float* x = this->x_;
  const std::string who = "group 'world', rank " + std::to_string(comm.rank());
  EXPECT_ERROR(comm.all_reduce(x, -1, DType::f32, ReduceOp::sum), ExitCode::internal, "all_reduce", who.c_str(), "negative (-1)");
  EXPECT_ERROR(comm.reduce_scatter(x, x + 4, -2, DType::f32, ReduceOp::sum), ExitCode::internal, "reduce_scatter",
               "negative (-2)");
  EXPECT_ERROR(comm.all_gather(x, x + 4, -3, DType::f32), ExitCode::internal, "all_gather", "negative (-3)");
  EXPECT_ERROR(comm.broadcast(x, -4, DType::f32, 0), ExitCode::internal, "broadcast", "negative (-4)");
  EXPECT_ERROR(comm.send(x, -5, DType::f32, 0), ExitCode::internal, "send", "negative (-5)");
  EXPECT_ERROR(comm.recv(x, -6, DType::f32, 0), ExitCode::internal, "recv", "negative (-6)");
  const Count huge = std::numeric_limits<Count>::max();
  EXPECT_ERROR(comm.all_gather(x, x + 4, huge, DType::f64), ExitCode::internal, "all_gather", "too large");
}

TYPED_TEST_P(CommunicatorMisuseTest, NullBuffers) {
  Communicator& comm = *this->comm_;
  float* x = this->x_;
  EXPECT_ERROR(comm.all_reduce(nullptr, 2, DType::f32, ReduceOp::sum), ExitCode::internal, "null buffer for 2 elements");
  EXPECT_ERROR(comm.reduce_scatter(nullptr, x, 1, DType::f32, ReduceOp::sum), ExitCode::internal, "null buffer");
  EXPECT_ERROR(comm.reduce_scatter(x, nullptr, 1, DType::f32, ReduceOp::sum), ExitCode::internal, "null buffer");
  EXPECT_ERROR(comm.all_gather(nullptr, x, 1, DType::f32), ExitCode::internal, "null buffer");
  EXPECT_ERROR(comm.all_gather(x, nullptr, 1, DType::f32), ExitCode::internal, "null buffer");
  EXPECT_ERROR(comm.broadcast(nullptr, 1, DType::f32, 0), ExitCode::internal, "null buffer");
  comm.all_reduce(nullptr, 0, DType::f32, ReduceOp::sum);  // nothing of nothing is fine
  comm.reduce_scatter(nullptr, nullptr, 0, DType::f32, ReduceOp::avg);
  comm.all_gather(nullptr, nullptr, 0, DType::f32);
  comm.broadcast(nullptr, 0, DType::f32, 0);
}

TYPED_TEST_P(CommunicatorMisuseTest, PeersRootsAndTags) {
  Communicator& comm = *this->comm_;
  float* x = this->x_;
  const int n = comm.size();
  EXPECT_ERROR(comm.broadcast(x, 1, DType::f32, n), ExitCode::internal, "broadcast", "root", "is not a rank of the group");
  EXPECT_ERROR(comm.broadcast(x, 1, DType::f32, -1), ExitCode::internal, "root -1");
  EXPECT_ERROR(comm.send(x, 1, DType::f32, n), ExitCode::internal, "send", "peer", "is not a rank of the group");
  EXPECT_ERROR(comm.recv(x, 1, DType::f32, -1), ExitCode::internal, "recv", "peer -1");
  EXPECT_ERROR(comm.send(x, 1, DType::f32, comm.rank()), ExitCode::internal, "the rank itself");
  if (n > 1) {
    const int peer = (comm.rank() + 1) % n;
    EXPECT_ERROR(comm.send(x, 1, DType::f32, peer, -1), ExitCode::internal, "tag -1");
    EXPECT_ERROR(comm.recv(x, 1, DType::f32, peer, kMaxTag + 1), ExitCode::internal, "tag 32767");
  }
}

TYPED_TEST_P(CommunicatorMisuseTest, AverageOfIntegers) {
  EXPECT_ERROR(this->comm_->all_reduce(&this->whole_, 1, DType::i32, ReduceOp::avg), ExitCode::internal,
               "int32 cannot be averaged");
  std::vector<std::int64_t> send(static_cast<std::size_t>(this->comm_->size()));
  std::int64_t recv = 0;
  EXPECT_ERROR(this->comm_->reduce_scatter(send.data(), &recv, 1, DType::i64, ReduceOp::avg), ExitCode::internal,
               "reduce_scatter", "int64 cannot be averaged");
}

TYPED_TEST_P(CommunicatorMisuseTest, OverlappingBuffers) {
  Communicator& comm = *this->comm_;
  std::vector<float> x(static_cast<std::size_t>(2 * comm.size() + 1));
  float* last = x.data() + 2 * comm.size() - 1;
  EXPECT_ERROR(comm.reduce_scatter(x.data(), last, 2, DType::f32, ReduceOp::sum), ExitCode::internal, "reduce_scatter",
               "overlap");
  EXPECT_ERROR(comm.all_gather(last, x.data(), 2, DType::f32), ExitCode::internal, "all_gather", "overlap");
}

REGISTER_TYPED_TEST_SUITE_P(CommunicatorMisuseTest, Counts, NullBuffers, PeersRootsAndTags, AverageOfIntegers,
                            OverlappingBuffers);

}  // namespace cohort::test
