#include "comm/benchmark.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"

namespace cohort {
namespace {

constexpr Bytes kElementBytes = sizeof(float);

/// Small whole numbers, so that the sum over ranks is exact in fp32 in any order of addition (up to 10,000 ranks or so).
float input_value(int rank, std::size_t i) { return static_cast<float>(rank % 8) + static_cast<float>(i % 251); }

void run(const AllReduceBenchmark& benchmark, AllReduceAlgorithm algorithm, Communicator& comm, std::span<float> data) {
  if (algorithm == AllReduceAlgorithm::own) {
    benchmark.own(comm, data);
  } else {
    run_all_reduce(algorithm, comm, data);
  }
}

/// Runs the all-reduce once on known numbers and checks every sum; returns the seconds that it took this rank.
double check_sums(Communicator& comm, const AllReduceBenchmark& benchmark, AllReduceAlgorithm algorithm, std::span<float> data) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = input_value(comm.rank(), i);
  const auto start = std::chrono::steady_clock::now();
  run(benchmark, algorithm, comm, data);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  float ranks_part = 0.0f;
  for (int r = 0; r < comm.size(); ++r) ranks_part += input_value(r, 0);
  fail_together(comm, "checking the all-reduce before timing it", [&] {
    for (std::size_t i = 0; i < data.size(); ++i) {
      const float expected = ranks_part + static_cast<float>(comm.size()) * input_value(0, i);
      if (data[i] != expected) {
        fail(algorithm == AllReduceAlgorithm::own ? ExitCode::unequal : ExitCode::internal,
             "{} of {} elements: element {} is {}, expected {}", name_of(algorithm), data.size(), i, data[i], expected);
      }
    }
  });
  return seconds;
}

/// Seconds of one all-reduce on this rank: a barrier, then `calls` in a row.
double time_once(Communicator& comm, const AllReduceBenchmark& benchmark, AllReduceAlgorithm algorithm, std::span<float> data,
                 int calls) {
  comm.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call) run(benchmark, algorithm, comm, data);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

AllReduceTiming measure(Communicator& comm, const AllReduceBenchmark& benchmark, AllReduceAlgorithm algorithm,
                        std::span<float> data) {
  const double warm_up = all_reduce_value(comm, check_sums(comm, benchmark, algorithm, data), ReduceOp::max);
  std::fill(data.begin(), data.end(), 0.0f);  // zeros stay zeros, however often they are summed
  const auto bytes = static_cast<Bytes>(data.size_bytes());
  const int calls = bytes <= 64 * kKiB ? 10 : 1;
  const int repeats = benchmark.repeats == 0 ? choose_repeats(warm_up * calls) : benchmark.repeats;

  const double seconds = median_of_slowest(comm, repeats, [&] { return time_once(comm, benchmark, algorithm, data, calls); });
  const double n = comm.size();
  const double bus_bytes = 2.0 * (n - 1.0) / n * static_cast<double>(bytes);
  return {bytes, algorithm, repeats, seconds, bus_bytes / seconds};
}

}  // namespace

int choose_repeats(double seconds) { return std::clamp(static_cast<int>(0.2 / std::max(seconds, 1e-6)), 3, 20); }

double median_of_slowest(Communicator& comm, int repeats, const std::function<double()>& once) {
  std::vector<double> seconds(static_cast<std::size_t>(repeats));
  for (double& s : seconds) s = once();
  all_reduce(comm, std::span(seconds), ReduceOp::max);
  const auto middle = seconds.begin() + repeats / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

void check(const AllReduceBenchmark& benchmark) {
  for (const Bytes bytes : {benchmark.min_bytes, benchmark.max_bytes}) {
    if (bytes < kElementBytes || bytes % kElementBytes != 0) {
      fail(ExitCode::usage, "a message of {} bytes is not a whole number of fp32 elements: give a multiple of {}", bytes,
           kElementBytes);
    }
  }
  if (benchmark.min_bytes > benchmark.max_bytes) {
    fail(ExitCode::usage, "the smallest message ({}) is larger than the largest ({})", human_bytes(benchmark.min_bytes),
         human_bytes(benchmark.max_bytes));
  }
  if (benchmark.algorithms.empty()) fail(ExitCode::usage, "no all-reduce algorithm given: choose from mpi, naive, tree and ring");
  if (benchmark.repeats < 0)
    fail(ExitCode::usage, "{} repeats: give 1 or more, or 0 to let the program choose", benchmark.repeats);
}

std::vector<Bytes> message_sizes(const AllReduceBenchmark& benchmark) {
  std::vector<Bytes> sizes;
  for (Bytes bytes = benchmark.min_bytes; bytes < benchmark.max_bytes; bytes *= 4) sizes.push_back(bytes);
  sizes.push_back(benchmark.max_bytes);
  return sizes;
}

void run_benchmark(Communicator& comm, const AllReduceBenchmark& benchmark,
                   const std::function<void(const std::vector<AllReduceTiming>&)>& on_size) {
  check(benchmark);
  std::vector<float> buffer;
  fail_together(comm, "making the message buffer", [&] {
    try {
      buffer.resize(static_cast<std::size_t>(benchmark.max_bytes / kElementBytes));
    } catch (const std::exception&) {  // bad_alloc, or length_error beyond what a vector can count
      fail(ExitCode::usage, "not enough memory for a message of {}: lower --max", human_bytes(benchmark.max_bytes));
    }
  });
  for (const Bytes bytes : message_sizes(benchmark)) {
    std::vector<AllReduceTiming> timings;
    for (const AllReduceAlgorithm algorithm : benchmark.algorithms) {
      timings.push_back(
          measure(comm, benchmark, algorithm, std::span(buffer).first(static_cast<std::size_t>(bytes / kElementBytes))));
    }
    on_size(timings);
  }
}

}  // namespace cohort
