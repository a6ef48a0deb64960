#include "comm/algorithms.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

constexpr int kTag = kMaxTag;

void send(Communicator& comm, std::span<const float> data, int to) {
  comm.send(data.data(), static_cast<Count>(data.size()), DType::f32, to, kTag);
}

void recv(Communicator& comm, std::span<float> data, int from) {
  comm.recv(data.data(), static_cast<Count>(data.size()), DType::f32, from, kTag);
}

/// Sends one message and receives another at the same time: in a ring, blocking sends would all wait for each other.
void exchange(Communicator& comm, std::span<const float> out, int to, std::span<float> in, int from) {
  Request receiving = comm.recv_async(in.data(), static_cast<Count>(in.size()), DType::f32, from, kTag);
  Request sending = comm.send_async(out.data(), static_cast<Count>(out.size()), DType::f32, to, kTag);
  receiving.wait();
  sending.wait();
}

void add(std::span<float> sum, std::span<const float> other) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

}  // namespace

void naive_all_reduce(Communicator& comm, std::span<float> data) {
  if (comm.rank() != 0) {
    send(comm, data, 0);
    recv(comm, data, 0);
    return;
  }
  std::vector<float> received(data.size());
  for (int r = 1; r < comm.size(); ++r) {
    recv(comm, received, r);
    add(data, received);
  }
  for (int r = 1; r < comm.size(); ++r) send(comm, data, r);
}

void tree_all_reduce(Communicator& comm, std::span<float> data) {
  const int n = comm.size();
  const int rank = comm.rank();
  std::vector<float> received(data.size());
  int distance = 1;
  for (; distance < n; distance *= 2) {  // ranks that are odd multiples of the distance hand their sum down and are done
    const int place = rank % (2 * distance);
    if (place == distance) send(comm, data, rank - distance);
    if (place == 0 && rank + distance < n) {
      recv(comm, received, rank + distance);
      add(data, received);
    }
  }
  for (distance /= 2; distance >= 1; distance /= 2) {  // the same messages backwards
    const int place = rank % (2 * distance);
    if (place == 0 && rank + distance < n) send(comm, data, rank + distance);
    if (place == distance) recv(comm, data, rank - distance);
  }
}

void ring_all_reduce(Communicator& comm, std::span<float> data) {
  const int n = comm.size();
  const int rank = comm.rank();
  if (n == 1) return;
  const int right = (rank + 1) % n;
  const int left = (rank + n - 1) % n;
  // Block b, counted around the ring. With fewer elements than ranks some blocks are empty.
  const auto block = [&](int b) {
    const auto index = static_cast<std::size_t>((b % n + n) % n);
    const std::size_t begin = data.size() * index / static_cast<std::size_t>(n);
    const std::size_t end = data.size() * (index + 1) / static_cast<std::size_t>(n);
    return data.subspan(begin, end - begin);
  };
  std::vector<float> received(data.size() / static_cast<std::size_t>(n) + 1);
  // Reduce-scatter: each step passes on the partial sum that came in the step before; at the end block rank + 1 is complete here.
  for (int step = 0; step < n - 1; ++step) {
    const std::span<float> sum = block(rank - step - 1);
    const std::span<float> in = std::span(received).first(sum.size());
    exchange(comm, block(rank - step), right, in, left);
    add(sum, in);
  }
  // All-gather: each step passes on the complete block that came in the step before.
  for (int step = 0; step < n - 1; ++step) exchange(comm, block(rank + 1 - step), right, block(rank - step), left);
}

std::string_view name_of(AllReduceAlgorithm algorithm) {
  constexpr std::array<std::string_view, 5> kNames{"mpi", "naive", "tree", "ring", "yours"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

AllReduceAlgorithm all_reduce_algorithm_from_name(std::string_view name) {
  std::vector<std::string> known;
  for (const AllReduceAlgorithm algorithm : kAllReduceAlgorithms) {
    if (name == name_of(algorithm)) return algorithm;
    known.emplace_back(name_of(algorithm));
  }
  fail(ExitCode::usage, "unknown all-reduce algorithm '{}'; available: {}", name, join(known));
}

void run_all_reduce(AllReduceAlgorithm algorithm, Communicator& comm, std::span<float> data) {
  switch (algorithm) {
    case AllReduceAlgorithm::library:
      return all_reduce(comm, data, ReduceOp::sum);
    case AllReduceAlgorithm::naive:
      return naive_all_reduce(comm, data);
    case AllReduceAlgorithm::tree:
      return tree_all_reduce(comm, data);
    case AllReduceAlgorithm::ring:
      return ring_all_reduce(comm, data);
    case AllReduceAlgorithm::own:
      break;
  }
  COHORT_CHECK(false, "run_all_reduce() was asked for an all-reduce that it does not know");
}

}  // namespace cohort
