// What the MPI backend promises beyond the contract of every backend: which bits a sum has, and what becomes of MPI's own errors.
#include "comm/mpi_communicator.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "support/expect_error.hpp"
#include "test_values.hpp"

namespace cohort::test {
namespace {

/// Numbers whose sum depends on the order of addition: both signs, magnitudes from 1e-4 to 1e4.
std::vector<float> rough_values(int rank, Count count) {
  const CounterRandom random(7, RandomPurpose::test, 0, static_cast<std::uint32_t>(rank));
  std::vector<float> values;
  for (Count i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    values.push_back(static_cast<float>(random.normal(2 * index) * std::pow(10.0, 8.0 * random.uniform(2 * index + 1) - 4.0)));
  }
  return values;
}

template <class T>
std::vector<T> rough_values_of(int rank, Count count) {
  std::vector<T> values;
  for (const float value : rough_values(rank, count))
    values.push_back(from_double<T>(0.1 * value));  // their sums stay below fp16's 65504
  return values;
}

template <class T>
auto bits(const std::vector<T>& values) {
  using Word =
      std::conditional_t<sizeof(T) == 8, std::uint64_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  std::vector<Word> words;
  for (const T value : values) words.push_back(std::bit_cast<Word>(value));
  return words;
}

/// The same words on all ranks? // Collective over: comm
template <class Word>
bool equal_on_all_ranks(Communicator& comm, const std::vector<Word>& words) {
  std::vector<Word> of_rank_0 = words;
  comm.broadcast(of_rank_0.data(), static_cast<Count>(words.size() * sizeof(Word)), DType::u8, 0);
  return all_reduce_value(comm, of_rank_0 == words ? 0 : 1, ReduceOp::max) == 0;
}

// 64 KiB and 1 MiB are where Open MPI changes algorithm in other collectives.
constexpr Count kCounts[] = {1, 2, 3, 5, 100, 1023, 4096, 16'383, 16'385, 65'537, 262'145, 1'000'003};

TEST(MpiCommunicator, SumsHaveTheSameBitsOnAllRanksAndEachTime) {
  const auto comm = make_world_communicator();
  for (const Count count : kCounts) {
    const std::vector<float> start = rough_values(comm->rank(), count);
    std::vector<float> once = start;
    comm->all_reduce(once.data(), count, DType::f32, ReduceOp::sum);
    EXPECT_TRUE(equal_on_all_ranks(*comm, bits(once))) << count;
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<float> again = start;
      comm->all_reduce_async(again.data(), count, DType::f32, ReduceOp::sum).wait();
      EXPECT_EQ(bits(again), bits(once)) << count;
    }
  }
}

// So that data-parallel strategies that cut gradients differently into messages agree bit for bit.
TEST(MpiCommunicator, SumsDoNotDependOnHowABufferIsCut) {
  const auto whole = make_world_communicator();
  const auto cut = make_world_communicator({.max_elements_per_call = 1000});
  const auto rank = whole->rank();
  const auto n = whole->size();
  for (const Count count : {5, 999, 4096, 100'001}) {
    std::vector<float> expected = rough_values(rank, count * n);
    whole->all_reduce(expected.data(), count * n, DType::f32, ReduceOp::sum);
    std::vector<float> pieces = rough_values(rank, count * n);
    cut->all_reduce(pieces.data(), count * n, DType::f32, ReduceOp::sum);
    EXPECT_EQ(bits(pieces), bits(expected)) << count;

    const std::vector<float> send = rough_values(rank, count * n);
    const std::vector<float> own(expected.begin() + rank * count, expected.begin() + (rank + 1) * count);
    for (Communicator* comm : {whole.get(), cut.get()}) {
      std::vector<float> block(static_cast<std::size_t>(count));
      comm->reduce_scatter(send.data(), block.data(), count, DType::f32, ReduceOp::sum);
      EXPECT_EQ(bits(block), bits(own)) << "reduce-scatter, " << count;
    }
  }
}

/// |sum of halves - exact sum| allowed: for each of the n-1 additions one rounding by half a unit in the last place (relative
/// 2^-8 of bf16, which has 7 bits after the point, and 2^-11 of fp16, which has 10) of partial sums no larger than the sum of
/// magnitudes, 1 % for those roundings themselves; fp16 subnormals are 2^-24 apart.
template <class T>
double half_tolerance(int n, double magnitudes) {
  const double relative = std::is_same_v<T, bf16> ? 0x1.0p-8 : 0x1.0p-11;
  return (n - 1) * (relative * magnitudes * 1.01 + 0x1.0p-25);
}

template <class T>
void check_half_sums(Communicator& comm, Count count) {
  const int n = comm.size();
  std::vector<T> sum = rough_values_of<T>(comm.rank(), count);
  comm.all_reduce(sum.data(), count, dtype_of<T>, ReduceOp::sum);
  EXPECT_TRUE(equal_on_all_ranks(comm, bits(sum)));
  std::vector<std::vector<T>> inputs;
  for (int r = 0; r < n; ++r) inputs.push_back(rough_values_of<T>(r, count));
  Count wrong = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double exact = 0.0;
    double magnitudes = 0.0;
    for (const auto& input : inputs) {
      exact += to_double(input[i]);
      magnitudes += std::fabs(to_double(input[i]));
    }
    if (n == 2 && std::bit_cast<std::uint16_t>(sum[i]) != std::bit_cast<std::uint16_t>(from_double<T>(exact))) ++wrong;
    if (std::fabs(to_double(sum[i]) - exact) > half_tolerance<T>(n, magnitudes)) ++wrong;
  }
  EXPECT_EQ(wrong, 0) << "of " << count;
}

TEST(MpiCommunicator, HalvesAddInFp32AndRoundOncePerAddition) {
  const auto comm = make_world_communicator();
  for (const Count count : {1, 1001, 70'001}) {
    check_half_sums<bf16>(*comm, count);
    check_half_sums<f16>(*comm, count);
  }
}

TEST(MpiCommunicator, MessagesOfAnotherLengthAreErrors) {
  const auto comm = make_world_communicator();
  if (comm->size() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  float x[5] = {};
  if (comm->rank() == 0) {
    comm->send(x, 5, DType::f32, 1);
    comm->send(x, 3, DType::f32, 1);
    comm->send(x, 0, DType::f32, 1);
    comm->send(x, 5, DType::bf16, 1);
    comm->send(x, 5, DType::f32, 1);
  } else if (comm->rank() == 1) {
    EXPECT_ERROR(comm->recv(x, 3, DType::f32, 0), ExitCode::internal, "recv on group 'world', rank 1 of", "MPI_ERR_TRUNCATE");
    EXPECT_ERROR(comm->recv(x, 5, DType::f32, 0), ExitCode::internal, "5 elements were asked for, the message had 3");
    EXPECT_ERROR(comm->recv(x, 5, DType::f32, 0), ExitCode::internal, "the message had 0");
    EXPECT_ERROR(comm->recv(x, 5, DType::f32, 0), ExitCode::internal, "the message had a fraction of one");
    comm->recv(x, 5, DType::f32, 0);  // and the group is still of use
  }
  comm->barrier();
}

// A request that was never waited for is waited for by its destructor; by assignment too.
TEST(MpiCommunicator, DroppedRequestsComplete) {
  const auto comm = make_world_communicator();
  std::vector<float> a(1000, 1.0f);
  std::vector<float> b(1000, 2.0f);
  {
    Request request = comm->all_reduce_async(a.data(), 1000, DType::f32, ReduceOp::sum);
    request = comm->all_reduce_async(b.data(), 1000, DType::f32, ReduceOp::avg);
    EXPECT_EQ(a, std::vector<float>(1000, static_cast<float>(comm->size())));
  }
  EXPECT_EQ(b, std::vector<float>(1000, 2.0f));
}

// A rank that throws while a message from a rank that waits for it is still to come must get out.
TEST(MpiCommunicator, UnwindingDoesNotWaitForPeersThatNeverCome) {
  const auto comm = make_world_communicator();
  if (comm->size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  static float never = 0.0f;  // outlives the abandoned receive
  if (comm->rank() == 0) {
    const auto start = std::chrono::steady_clock::now();
    try {
      const Request request = comm->recv_async(&never, 1, DType::f32, 1);
      throw std::runtime_error("something else went wrong");
    } catch (const std::runtime_error&) {
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  comm->barrier();
  if (comm->rank() == 1) comm->send(&never, 1, DType::f32, 0);  // now the receive is over, and MPI_Finalize finds nothing pending
  comm->barrier();
}

/// What a thread of its own used for `work`.
rusage usage_of(const std::function<void()>& work) {
  return std::async(std::launch::async,
                    [&] {
                      work();
                      rusage usage{};
                      ::getrusage(RUSAGE_THREAD, &usage);
                      return usage;
                    })
      .get();
}

// A thread in the background waits for a rank that comes late, and leaves the core to the training. Who asks all the time takes
// all of a core that is free and never gives it up by itself (sched_yield does not count); one that naps for 50 us and then asks
// for some 2 us takes a twentieth, and gives it up thousands of times a second, or tens where much else runs.
TEST(MpiCommunicator, WaitingInTheBackgroundTakesLittleOfACore) {
  const auto world = make_world_communicator();
  if (world->size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  if (!all_threads_may_communicate()) GTEST_SKIP() << "this MPI lets one thread communicate";
  constexpr double kLate = 0.3, kShare = 0.33;
  constexpr long kNaps = 10;
  const auto group = world->split(0, world->rank(), "background");
  group->be_patient();
  float x = 0.0f;
  const std::vector<std::pair<const char*, std::function<void()>>> operations{
      {"all_reduce", [&] { group->all_reduce(&x, 1, DType::f32, ReduceOp::sum); }},
      {"broadcast", [&] { group->broadcast(&x, 1, DType::f32, 0); }},
      {"message",
       [&] {
         for (int to = 1; group->rank() == 0 && to < group->size(); ++to) group->send(&x, 1, DType::f32, to);
         if (group->rank() > 0) group->recv(&x, 1, DType::f32, 0);
       }},
      {"barrier", [&] {
         group->barrier();
         x = 7.0f;
       }}};
  for (const auto& [name, operation] : operations) {
    SCOPED_TRACE(name);
    x = group->rank() == 0 ? 7.0f : 0.0f;
    world->barrier();
    if (world->rank() == 0) std::this_thread::sleep_for(std::chrono::duration<double>(kLate));
    const auto begin = std::chrono::steady_clock::now();
    const rusage usage = usage_of(operation);
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_EQ(x, 7.0f);
    world->barrier();
    if (world->rank() == 0 || waited < kLate / 2) continue;  // it came late itself
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    EXPECT_LT(seconds(usage.ru_utime) + seconds(usage.ru_stime), kShare * waited);
    EXPECT_GE(usage.ru_nvcsw, kNaps);
  }
}

TEST(MpiCommunicator, LimitsOutsideOfMpisAreRefused) {
  EXPECT_ERROR(make_world_communicator({.max_elements_per_call = 0}), ExitCode::internal, "max_elements_per_call is 0");
  EXPECT_ERROR(make_world_communicator({.max_elements_per_call = Count{1} << 31}), ExitCode::internal, "max_elements_per_call");
}

// Groups may be destroyed in any order, with requests of theirs still about.
TEST(MpiCommunicator, RequestsOutliveTheirGroup) {
  auto world = make_world_communicator();
  const int n = world->size();
  auto part = world->split(0, 0, "part");
  world.reset();
  float x = 1.0f;
  Request request = part->all_reduce_async(&x, 1, DType::f32, ReduceOp::sum);
  part.reset();
  request.wait();
  EXPECT_EQ(x, static_cast<float>(n));
}

}  // namespace
}  // namespace cohort::test
