// Lab 3: an all-reduce is right if every rank ends with the sum of all, with the same bits, and if it takes no more messages than
// its way of doing it needs.
#include <array>
#include <bit>
#include <cmath>
#include <cohort/lab03_collectives.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "labs/grading/contributions.hpp"
#include "labs/grading/guarded.hpp"
#include "labs/grading/ranks.hpp"
#include "labs/labs.hpp"
#include "labs/use/communicator_link.hpp"
#include "parallel/strategy.hpp"

namespace cohort::labs::lab03_collectives {
namespace {

using AllReduce = void(lab::Link&, std::span<float>);
using Values = std::function<float(int rank, std::size_t element)>;

struct Outcome {
  std::vector<Guarded> data;  // by rank
  Traffic traffic;
};

Outcome run_all_reduce(AllReduce* all_reduce, int ranks, std::size_t elements, const Values& values) {
  Outcome outcome;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> data(elements);
    for (std::size_t i = 0; i < elements; ++i) data[i] = values(rank, i);
    outcome.data.emplace_back(std::move(data));
  }
  outcome.traffic =
      run_ranks(ranks, [&](lab::Link& link) { all_reduce(link, outcome.data[static_cast<std::size_t>(link.rank())].span()); });
  for (int rank = 0; rank < ranks; ++rank)
    outcome.data[static_cast<std::size_t>(rank)].check(fmt::format("on rank {}, data", rank));
  return outcome;
}

void check_ranks(AllReduce* all_reduce, int ranks, std::size_t elements) {
  const Outcome outcome = run_all_reduce(all_reduce, ranks, elements, [](int rank, std::size_t) { return digit_of(rank); });
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < elements; ++i) {
      const std::string wrong = wrong_contributions(outcome.data[static_cast<std::size_t>(rank)][i], ranks);
      if (!wrong.empty()) reject("on rank {}, element {} is not the sum over all ranks: {}", rank, i, wrong);
    }
  }
}

// Here the elements differ, and the ranks do not: who puts a block into another's place is seen.
void check_elements(AllReduce* all_reduce, int ranks, std::size_t elements) {
  const Outcome outcome =
      run_all_reduce(all_reduce, ranks, elements, [](int, std::size_t i) { return static_cast<float>(i + 1); });
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < elements; ++i) {
      const float element = outcome.data[static_cast<std::size_t>(rank)][i] / static_cast<float>(ranks);
      if (element == static_cast<float>(i + 1)) continue;
      const bool another = element == std::floor(element) && element >= 1.0f && element <= static_cast<float>(elements);
      reject("on rank {}, element {} is not its own sum{}", rank, i,
             another ? fmt::format(": it holds that of element {}", static_cast<int>(element) - 1) : "");
    }
  }
}

// Values whose sum depends on the order of adding.
void check_bits(AllReduce* all_reduce, int ranks, std::size_t elements) {
  const Outcome outcome = run_all_reduce(all_reduce, ranks, elements, [](int rank, std::size_t i) {
    return std::ldexp(1.0f + 0.37f * static_cast<float>(i % 5), 9 * (rank % 3)) * (rank % 2 == 0 ? 1.0f : -1.01f);
  });
  for (int rank = 1; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < elements; ++i) {
      const float first = outcome.data.front()[i], other = outcome.data[static_cast<std::size_t>(rank)][i];
      if (std::bit_cast<std::uint32_t>(first) != std::bit_cast<std::uint32_t>(other))
        reject("element {} is {:.9g} on rank 0 and {:.9g} on rank {}: they add in different orders, and so round differently", i,
               first, other, rank);
    }
  }
}

using CheckCost = std::function<void(int ranks, std::size_t elements, const Traffic& traffic)>;

void grade_all_reduce(const Library& library, Grading& grading, const std::string& name, const CheckCost& check_cost) {
  auto* all_reduce = library.function<AllReduce>(name);
  for (const int ranks : {2, 1, 4, 3, 5, 8}) {
    for (const std::size_t elements : {std::size_t{8}, std::size_t{1}, std::size_t{0}, std::size_t{13}, std::size_t{64}}) {
      grading.begin(fmt::format("{} and {}", counted(ranks, "rank"), counted(static_cast<Count>(elements), "element")));
      check_ranks(all_reduce, ranks, elements);
      check_elements(all_reduce, ranks, elements);
      check_bits(all_reduce, ranks, elements);
    }
  }
  for (const int ranks : {2, 3, 4, 7, 8}) {
    constexpr std::size_t kElements = 840;  // which all of these divide
    grading.begin(fmt::format("{} and {} elements", counted(ranks, "rank"), kElements));
    check_cost(ranks, kElements, run_all_reduce(all_reduce, ranks, kElements, [](int, std::size_t) { return 1.0f; }).traffic);
  }
}

void naive_costs(int ranks, std::size_t elements, const Traffic& traffic) {
  const auto n = static_cast<Count>(elements);
  for (int rank = 1; rank < ranks; ++rank) {
    if (traffic.elements_sent[static_cast<std::size_t>(rank)] != n)
      reject("rank {} sends {} elements: each rank but 0 sends its {} once, to rank 0", rank,
             traffic.elements_sent[static_cast<std::size_t>(rank)], n);
  }
  if (traffic.elements_sent[0] != n * (ranks - 1))
    reject("rank 0 sends {} elements: it sends the sum, {} elements, to each of the {} other ranks", traffic.elements_sent[0], n,
           ranks - 1);
}

void tree_costs(int ranks, std::size_t, const Traffic& traffic) {
  const int rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
  if (traffic.messages_in_turn > 2 * rounds)
    reject("{} messages wait for each other: a tree of {} ranks needs {} rounds up and as many down, so {}",
           traffic.messages_in_turn, ranks, rounds, 2 * rounds);
}

void ring_costs(int ranks, std::size_t elements, const Traffic& traffic) {
  const Count steps = 2 * (ranks - 1), block = static_cast<Count>(elements) / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const Count sent = traffic.elements_sent[static_cast<std::size_t>(rank)];
    if (sent != steps * block)
      reject("rank {} sends {} elements: in a ring it sends {} blocks of {}, so {}", rank, sent, steps, block, steps * block);
  }
  if (traffic.messages_in_turn > steps)
    reject("{} messages wait for each other, but a ring has {} steps: all ranks send at the same time", traffic.messages_in_turn,
           steps);
}

void check_seconds(const char* name, double found, double expected, double wrong, const char* why) {
  if (std::fabs(found - expected) <= 1e-9 * std::fabs(expected)) return;  // of rounding
  const bool known = wrong > 0.0 && std::fabs(found - wrong) <= 1e-9 * wrong;
  reject("{} is {:.6g} s{}", name, found,
         known ? fmt::format(": {}", why) : fmt::format(", which is {} times what the messages take", found / expected));
}

void grade_prediction(const Library& library, Grading& grading) {
  auto* predict = library.function<AllReduceSeconds(int, double, double, double)>("predict_all_reduce");
  for (const int n : {4, 2, 3, 8, 1, 100}) {
    for (const double bytes : {1e6, 0.0, 8.0}) {
      constexpr double kLatency = 2e-6, kBandwidth = 1e10;
      grading.begin(fmt::format("{}, {:g} bytes, {} s, {:g} bytes a second", counted(n, "rank"), bytes, kLatency, kBandwidth));
      const AllReduceSeconds found = predict(n, bytes, kLatency, kBandwidth);
      const double message = kLatency + bytes / kBandwidth;
      const double rounds = std::bit_width(static_cast<unsigned>(n - 1));
      check_seconds("naive", found.naive, 2 * (n - 1) * message, (n - 1) * message,
                    "that is one way alone, and the sum comes back, too");
      check_seconds("tree", found.tree, 2 * rounds * message, 2 * std::log2(n) * message,
                    "with a number of ranks that is no power of two the last round is a whole one, too");
      check_seconds("ring", found.ring, 2 * (n - 1) * (kLatency + bytes / n / kBandwidth), 2 * (n - 1) * message,
                    "the messages of a ring are blocks, not the whole data");
    }
  }
}

// In a run it is what sums the gradients.
void use_all_reduce(const Library& library, const std::string& name) {
  use_own_all_reduce([library, name, all_reduce = library.function<AllReduce>(name)](Communicator& group, std::span<float> data) {
    CommunicatorLink link(group);
    try {
      all_reduce(link, data);
    } catch (const lab::NotWritten&) {  // on all ranks alike
      throw SharedError(ExitCode::usage, name + " is not written yet");
    }
  });
}

// An all-reduce of the lab: graded, and used.
Exercise all_reduce_exercise(const char* name, const char* task, const CheckCost& check_cost) {
  return {.name = name,
          .task = task,
          .grade = [=](const Library& library, Grading& grading) { grade_all_reduce(library, grading, name, check_cost); },
          .use = [=](const Library& library) { use_all_reduce(library, name); },
          .purpose = "all-reduce"};
}

// For the questions: the gradients of GPT-2 124M; a ring of 4 ranks over so many gradients of 64 KiB.
constexpr double kGpt2Megabytes = 124.4 * 4.0;

double ring_microseconds(double gradients) { return 6.0 * (5.0 + gradients * 16384.0 / 10e9 * 1e6); }

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 3,
      .folder = "03_collectives",
      .title = "Collectives from send and receive",
      .minutes = 90,
      .run_file = "lab03_collectives.toml",
      .ranks = 4,
      .exercises = {all_reduce_exercise("naive_all_reduce", "everybody sends to rank 0", naive_costs),
                    all_reduce_exercise("tree_all_reduce", "up a tree and down again", tree_costs),
                    all_reduce_exercise("ring_all_reduce", "blocks around a ring", ring_costs),
                    {.name = "predict_all_reduce", .task = "how long they take, by the cost model", .grade = grade_prediction}},
      .questions = {{"q1", [] { return kGpt2Megabytes * 2.0 * 7.0 / 8.0; }},
                    {"q2", [] { return kGpt2Megabytes * 7.0 / 1000.0; }},
                    {"q5", [] { return 34.0 * ring_microseconds(1.0); }},
                    {"q6", [] { return ring_microseconds(34.0); }}}};
  return kLab;
}

}  // namespace cohort::labs::lab03_collectives
