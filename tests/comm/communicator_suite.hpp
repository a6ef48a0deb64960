// What every backend must do: each operation on each element type, for counts that are empty, single, odd and cut into many
// calls. A test program instantiates the suite for its backends.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backends.hpp"
#include "test_values.hpp"

namespace cohort::test {

TYPED_TEST_SUITE_P(CommunicatorTest);

/// What reducing element i over n ranks must give. An average of bf16 and fp16 is the exact sum, divided in fp32 and rounded
/// once.
template <class T>
double reduced_value(int n, Count i, ReduceOp op) {
  double sum = 0.0;
  double max = test_value<T>(0, i);
  for (int r = 0; r < n; ++r) {
    sum += test_value<T>(r, i);
    max = std::max(max, test_value<T>(r, i));
  }
  if (op == ReduceOp::max) return max;
  if (op == ReduceOp::sum) return sum;
  if (std::is_same_v<T, double>) return sum / n;
  return to_double(from_double<T>(static_cast<float>(sum) / static_cast<float>(n)));
}

template <class T>
std::vector<double> reduced_values(int n, Count count, ReduceOp op, Count first = 0) {
  std::vector<double> values;
  for (Count i = first; i < first + count; ++i) values.push_back(reduced_value<T>(n, i, op));
  return values;
}

template <class T>
std::vector<ReduceOp> operations() {
  if (is_floating(dtype_of<T>)) return {ReduceOp::sum, ReduceOp::max, ReduceOp::avg};
  return {ReduceOp::sum, ReduceOp::max};
}

inline std::string describe(DType dtype, Count count, ReduceOp op = ReduceOp::sum) {
  return std::string(name_of(dtype)) + ", count " + std::to_string(count) + ", operation " + std::to_string(static_cast<int>(op));
}

TYPED_TEST_P(CommunicatorTest, AllReduce) {
  for_each_type([&]<class T>() {
    for (const Count count : this->kCounts) {
      for (const ReduceOp op : operations<T>()) {
        SCOPED_TRACE(describe(dtype_of<T>, count, op));
        typename TypeParam::template Buffer<T> buffer(test_values<T>(this->comm_->rank(), count));
        this->comm_->all_reduce(buffer.data(), count, dtype_of<T>, op);
        EXPECT_EQ(doubles(buffer.host()), reduced_values<T>(this->comm_->size(), count, op));
      }
    }
  });
}

TYPED_TEST_P(CommunicatorTest, ReduceScatter) {
  const int n = this->comm_->size();
  for_each_type([&]<class T>() {
    for (const Count count : this->kCounts) {
      for (const ReduceOp op : operations<T>()) {
        SCOPED_TRACE(describe(dtype_of<T>, count, op));
        typename TypeParam::template Buffer<T> send(test_values<T>(this->comm_->rank(), count * n));
        typename TypeParam::template Buffer<T> recv(std::vector<T>(static_cast<std::size_t>(count), from_double<T>(99.0)));
        this->comm_->reduce_scatter(send.data(), recv.data(), count, dtype_of<T>, op);
        EXPECT_EQ(doubles(recv.host()), reduced_values<T>(n, count, op, count * this->comm_->rank()));
        EXPECT_EQ(doubles(send.host()), doubles(test_values<T>(this->comm_->rank(), count * n))) << "`send` was changed";
      }
    }
  });
}

TYPED_TEST_P(CommunicatorTest, ReduceScatterInPlace) {
  const int n = this->comm_->size();
  const int rank = this->comm_->rank();
  for_each_type([&]<class T>() {
    for (const Count count : this->kCounts) {
      for (const ReduceOp op : operations<T>()) {
        SCOPED_TRACE(describe(dtype_of<T>, count, op));
        typename TypeParam::template Buffer<T> data(test_values<T>(rank, count * n));
        this->comm_->reduce_scatter(data.data(), data.data() + rank * count, count, dtype_of<T>, op);
        const std::vector<double> all = doubles(data.host());
        const std::vector<double> own(all.begin() + rank * count, all.begin() + (rank + 1) * count);
        EXPECT_EQ(own, reduced_values<T>(n, count, op, count * rank));
      }
    }
  });
}

template <class T>
std::vector<double> gathered_values(int n, Count count) {
  std::vector<double> all;
  for (int r = 0; r < n; ++r) {
    for (const double value : doubles(test_values<T>(r, count))) all.push_back(value);
  }
  return all;
}

TYPED_TEST_P(CommunicatorTest, AllGather) {
  const int n = this->comm_->size();
  for_each_type([&]<class T>() {
    for (const Count count : this->kCounts) {
      SCOPED_TRACE(describe(dtype_of<T>, count));
      typename TypeParam::template Buffer<T> send(test_values<T>(this->comm_->rank(), count));
      typename TypeParam::template Buffer<T> recv(std::vector<T>(static_cast<std::size_t>(count * n), from_double<T>(99.0)));
      this->comm_->all_gather(send.data(), recv.data(), count, dtype_of<T>);
      EXPECT_EQ(doubles(recv.host()), gathered_values<T>(n, count));
    }
  });
}

TYPED_TEST_P(CommunicatorTest, AllGatherInPlace) {
  const int n = this->comm_->size();
  for_each_type([&]<class T>() {
    for (const Count count : this->kCounts) {
      SCOPED_TRACE(describe(dtype_of<T>, count));
      std::vector<T> start(static_cast<std::size_t>(count * n), from_double<T>(99.0));
      std::ranges::copy(test_values<T>(this->comm_->rank(), count), start.begin() + this->comm_->rank() * count);
      typename TypeParam::template Buffer<T> recv(std::move(start));
      this->comm_->all_gather(recv.data() + this->comm_->rank() * count, recv.data(), count, dtype_of<T>);
      EXPECT_EQ(doubles(recv.host()), gathered_values<T>(n, count));
    }
  });
}

// Blocks of less than was announced, of as much, and of more.
TYPED_TEST_P(CommunicatorTest, GathersBesideProducts) {
  using Buffer = typename TypeParam::template Buffer<float>;
  const int n = this->comm_->size(), rank = this->comm_->rank();
  // The longest outgrow the memory that a ring of GPUs begins with. Where the limit cuts, they would be thousands of messages.
  const Count longest = TypeParam::kLimit <= 1000 ? this->kLarge : 700'000;
  this->comm_->gather_beside_products(longest * 4);
  for (const Count count : {Count{1}, Count{1000}, longest, 2 * longest, Count{7}}) {
    SCOPED_TRACE(count);
    Buffer own(test_values<float>(rank, count));
    Buffer first(std::vector<float>(static_cast<std::size_t>(count * n), 99.0f));
    Buffer second(std::vector<float>(static_cast<std::size_t>(count * n), 99.0f));
    Buffer sum(test_values<float>(rank, count));
    Request requests[] = {this->comm_->all_gather_async(own.data(), first.data(), count, DType::f32),
                          this->comm_->all_reduce_async(sum.data(), count, DType::f32, ReduceOp::sum),
                          this->comm_->all_gather_async(own.data(), second.data(), count, DType::f32)};
    for (Request& request : requests) request.wait();
    EXPECT_EQ(doubles(first.host()), gathered_values<float>(n, count));
    EXPECT_EQ(doubles(second.host()), gathered_values<float>(n, count));
    EXPECT_EQ(doubles(sum.host()), reduced_values<float>(n, count, ReduceOp::sum));
  }
}

TYPED_TEST_P(CommunicatorTest, BroadcastFromEachRoot) {
  for_each_type([&]<class T>() {
    for (const Count count : this->kCounts) {
      for (int root = 0; root < this->comm_->size(); ++root) {
        SCOPED_TRACE(describe(dtype_of<T>, count));
        typename TypeParam::template Buffer<T> buffer(test_values<T>(this->comm_->rank(), count));
        this->comm_->broadcast(buffer.data(), count, dtype_of<T>, root);
        EXPECT_EQ(doubles(buffer.host()), doubles(test_values<T>(root, count)));
      }
    }
  });
}

// Each rank sends to its right neighbour and receives from its left one.
TYPED_TEST_P(CommunicatorTest, SendAndReceiveAroundARing) {
  const int n = this->comm_->size();
  if (n == 1) GTEST_SKIP() << "one rank has nobody to send to";
  const int rank = this->comm_->rank();
  const int left = (rank + n - 1) % n;
  for_each_type([&]<class T>() {
    for (const Count count : this->kCounts) {
      SCOPED_TRACE(describe(dtype_of<T>, count));
      typename TypeParam::template Buffer<T> out(test_values<T>(rank, count));
      typename TypeParam::template Buffer<T> in(std::vector<T>(static_cast<std::size_t>(count), from_double<T>(99.0)));
      Request receiving = this->comm_->recv_async(in.data(), count, dtype_of<T>, left);
      Request sending = this->comm_->send_async(out.data(), count, dtype_of<T>, (rank + 1) % n);
      sending.wait();
      receiving.wait();
      EXPECT_EQ(doubles(in.host()), doubles(test_values<T>(left, count)));
    }
  });
}

// Messages grow from turn to turn; the second of each two goes out before the first is waited for.
TYPED_TEST_P(CommunicatorTest, TurnsOfARing) {
  using Buffer = typename TypeParam::template Buffer<float>;
  const int n = this->comm_->size();
  if (n == 1) GTEST_SKIP() << "one rank has nobody to send to";
  const int rank = this->comm_->rank();
  const int right = (rank + 1) % n, left = (rank + n - 1) % n;
  const auto post = [&](Buffer& out, Buffer& in, Count count) {
    Request sent = this->comm_->send_async(out.data(), count, DType::f32, right, kRingTag);
    return std::pair(std::move(sent), this->comm_->recv_async(in.data(), count, DType::f32, left, kRingTag));
  };
  // The longest outgrow the memory that a ring of GPUs begins with; where messages are cut into pieces of a few elements, they
  // would be too many.
  const Count longest = TypeParam::kLimit < 1000 ? this->kLarge : 500'000;
  for (const Count count : {Count{1}, Count{1000}, this->kLarge, longest, Count{7}}) {
    SCOPED_TRACE(count);
    Buffer own(test_values<float>(rank, count));
    Buffer other(test_values<float>(rank + n, 2 * count));
    Buffer first(std::vector<float>(static_cast<std::size_t>(count), 99.0f));
    Buffer second(std::vector<float>(static_cast<std::size_t>(2 * count), 99.0f));
    Buffer all(std::vector<float>(static_cast<std::size_t>(count * n)));
    auto turn = post(own, first, count);
    auto next_turn = post(other, second, 2 * count);
    turn.first.test();
    next_turn.second.wait();
    turn.second.wait();
    turn.first.wait();
    next_turn.first.wait();
    this->comm_->all_gather(first.data(), all.data(), count, DType::f32);
    EXPECT_EQ(first.host(), test_values<float>(left, count));
    EXPECT_EQ(second.host(), test_values<float>(left + n, 2 * count));
    const std::vector<float> gathered = all.host();
    for (int r = 0; r < n; ++r) {
      const auto begin = gathered.begin() + r * count;
      EXPECT_EQ(std::vector<float>(begin, begin + count), test_values<float>((r + n - 1) % n, count)) << "block " << r;
    }
  }
}

TYPED_TEST_P(CommunicatorTest, SeveralInFlightWaitedForInAnyOrder) {
  using Buffer = typename TypeParam::template Buffer<float>;
  const int n = this->comm_->size();
  const int rank = this->comm_->rank();
  const Count count = this->kLarge;
  Buffer sum(test_values<float>(rank, count));
  Buffer average(test_values<float>(rank, count));
  Buffer whole(test_values<float>(rank, count * n));
  Buffer part(std::vector<float>(static_cast<std::size_t>(count)));
  Buffer gathered(std::vector<float>(static_cast<std::size_t>(count * n)));
  Buffer own(test_values<float>(rank, count));
  Buffer told(test_values<float>(rank, count));
  Request requests[] = {this->comm_->all_reduce_async(sum.data(), count, DType::f32, ReduceOp::sum),
                        this->comm_->reduce_scatter_async(whole.data(), part.data(), count, DType::f32, ReduceOp::avg),
                        this->comm_->all_gather_async(own.data(), gathered.data(), count, DType::f32),
                        this->comm_->all_reduce_async(average.data(), count, DType::f32, ReduceOp::avg),
                        this->comm_->broadcast_async(told.data(), count, DType::f32, n - 1)};
  while (!requests[3].test()) {
  }
  EXPECT_EQ(doubles(average.host()), reduced_values<float>(n, count, ReduceOp::avg))
      << "test() was true before the result was there";
  // Forwards on some ranks, backwards on others.
  if (rank % 2 == 0) std::ranges::reverse(requests);
  for (Request& request : requests) request.wait();
  for (Request& request : requests) EXPECT_TRUE(request.test());
  EXPECT_EQ(doubles(sum.host()), reduced_values<float>(n, count, ReduceOp::sum));
  EXPECT_EQ(doubles(average.host()), reduced_values<float>(n, count, ReduceOp::avg)) << "divided again by wait()";
  EXPECT_EQ(doubles(part.host()), reduced_values<float>(n, count, ReduceOp::avg, count * rank));
  EXPECT_EQ(doubles(gathered.host()), gathered_values<float>(n, count));
  EXPECT_EQ(told.host(), test_values<float>(n - 1, count));
}

// Rank 0 starts an all-reduce; the others only after rank 0 has seen that it cannot be done yet, of which it tells them another
// way: a backend may keep all of its operations in order.
TYPED_TEST_P(CommunicatorTest, NotDoneBeforeAllHaveStarted) {
  const int n = this->comm_->size();
  if (n == 1) GTEST_SKIP() << "one rank waits for nobody";
  const std::unique_ptr<Communicator> aside = make_world_communicator();
  typename TypeParam::template Buffer<float> sum(test_values<float>(this->comm_->rank(), 100));
  Request request;
  if (this->comm_->rank() == 0) {
    request = this->comm_->all_reduce_async(sum.data(), 100, DType::f32, ReduceOp::avg);
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(request.test());
    aside->barrier();
  } else {
    aside->barrier();
    request = this->comm_->all_reduce_async(sum.data(), 100, DType::f32, ReduceOp::avg);
  }
  request.wait();
  EXPECT_EQ(doubles(sum.host()), reduced_values<float>(n, 100, ReduceOp::avg));
}

TYPED_TEST_P(CommunicatorTest, SplitOrdersByKeyAndLeavesOut) {
  const int n = this->comm_->size();
  const int rank = this->comm_->rank();
  // Odd and even ranks apart, in reverse order.
  const std::unique_ptr<Communicator> part = this->comm_->split(rank % 2, n - rank, "half");
  ASSERT_NE(part, nullptr);
  const int members = (n + 1 - rank % 2) / 2;
  EXPECT_EQ(part->size(), members);
  EXPECT_EQ(part->rank(), members - 1 - rank / 2);
  EXPECT_EQ(part->name(), "half");
  EXPECT_EQ(part->backend(), this->comm_->backend());
  std::int32_t sum = rank;
  typename TypeParam::template Buffer<std::int32_t> buffer({sum});
  part->all_reduce(buffer.data(), 1, DType::i32, ReduceOp::sum);
  std::int32_t expected = 0;
  for (int r = rank % 2; r < n; r += 2) expected += r;
  EXPECT_EQ(buffer.host()[0], expected);

  const std::unique_ptr<Communicator> none = this->comm_->split(rank == 0 ? -1 : 3, 0, "rest");
  EXPECT_EQ(none == nullptr, rank == 0);
}

TYPED_TEST_P(CommunicatorTest, BarrierWaitsForAll) {
  // Without a barrier, the message of rank 0 could be missing when the others look: they post their receive only after it.
  typename TypeParam::template Buffer<float> token(std::vector<float>{static_cast<float>(this->comm_->rank())});
  std::vector<Request> sends;
  if (this->comm_->rank() == 0) {
    for (int r = 1; r < this->comm_->size(); ++r) sends.push_back(this->comm_->send_async(token.data(), 1, DType::f32, r));
  }
  this->comm_->barrier();
  if (this->comm_->rank() != 0) {
    this->comm_->recv(token.data(), 1, DType::f32, 0);
    EXPECT_EQ(token.host()[0], 0.0f);
  }
  for (Request& send : sends) send.wait();
}

REGISTER_TYPED_TEST_SUITE_P(CommunicatorTest, AllReduce, ReduceScatter, ReduceScatterInPlace, AllGather, AllGatherInPlace,
                            GathersBesideProducts, BroadcastFromEachRoot, SendAndReceiveAroundARing, TurnsOfARing,
                            SeveralInFlightWaitedForInAnyOrder, NotDoneBeforeAllHaveStarted, SplitOrdersByKeyAndLeavesOut,
                            BarrierWaitsForAll);

}  // namespace cohort::test
