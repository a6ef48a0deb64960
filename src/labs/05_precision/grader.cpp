// Lab 5: numbers bit for bit (precision_numbers.cpp), and here what a step does with them: the loss scale as a machine of states,
// one decision on all ranks, and the types of a policy.
#include <array>
#include <cmath>
#include <cohort/lab05_precision.hpp>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "labs/05_precision/precision_numbers.hpp"
#include "labs/grading/guarded.hpp"
#include "labs/grading/ranks.hpp"
#include "labs/labs.hpp"
#include "optim/loss_scale.hpp"

namespace cohort::labs::lab05_precision {
namespace {

// The lab's own types have names that the program has, too.
using State = ::LossScale;
using Rule = ::LossScaleRule;
using UpdateScale = bool(State&, const Rule&, bool);

// What the rule makes of a state; the grader's own.
bool expected_update(State& state, const Rule& rule, bool overflowed) {
  if (overflowed) {
    state.good_steps = 0;
    if (state.scale * 0.5 < rule.minimum) return false;
    state.scale *= 0.5;
    return true;
  }
  if (++state.good_steps == rule.growth_interval) {
    state.good_steps = 0;
    state.scale = std::min(state.scale * 2.0, rule.largest);
  }
  return true;
}

// "good good OVERFLOW": what the last steps did.
std::string last_steps(const std::string& steps, std::size_t step) {
  std::vector<std::string> words;
  for (std::size_t i = step < 3 ? 0 : step - 3; i <= step; ++i) words.emplace_back(steps[i] == 'o' ? "overflow" : "good");
  return join(words, ", ");
}

void check_scale(const State& found, const State& expected, const State& before, const Rule& rule, bool overflowed) {
  if (found.scale == expected.scale) return;
  const char* why = overflowed && found.scale == before.scale          ? "an overflow halves it"
                    : found.scale > rule.largest                       ? "it never grows beyond the largest"
                    : found.scale < rule.minimum                       ? "it never falls below the minimum"
                    : !overflowed && found.scale == 2.0 * before.scale ? "there are not yet enough good steps in a row"
                    : !overflowed && found.scale == before.scale       ? "there are enough good steps in a row for it to double"
                                                                       : "it halves, doubles or stays";
  reject("the scale goes from {:g} to {:g}: {} (good steps in a row before: {}, growth_interval {})", before.scale, found.scale,
         why, before.good_steps, rule.growth_interval);
}

void check_steps(UpdateScale* update, const State& start, const Rule& rule, const std::string& steps, Grading& grading) {
  State found = start, expected = start;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool overflowed = steps[i] == 'o';
    grading.begin(fmt::format("scale {:g}, minimum {:g}, largest {:g}, growth_interval {}, step {} (last steps: {})", start.scale,
                              rule.minimum, rule.largest, rule.growth_interval, i + 1, last_steps(steps, i)));
    const State before = expected;
    const bool goes_on = update(found, rule, overflowed), should = expected_update(expected, rule, overflowed);
    check_scale(found, expected, before, rule, overflowed);
    if (found.good_steps != expected.good_steps)
      reject("good_steps is {} after the step, {} before it: {}", found.good_steps, before.good_steps,
             overflowed                       ? "an overflow begins the count anew"
             : expected.scale != before.scale ? "after the scale has doubled the count begins anew"
             : expected.good_steps == 0       ? "at the largest scale, too, the count begins anew"
                                              : "a good step is counted");
    if (goes_on != should)
      reject("it returns {}: {}", goes_on,
             should ? "the run can go on" : "half the scale would be less than the minimum, so the run must stop");
  }
}

void grade_loss_scale(const Library& library, Grading& grading) {
  auto* update = library.function<UpdateScale>("loss_scale_update");
  check_steps(update, {8.0, 0}, {2.0, 1024.0, 3}, "...o...oo.o", grading);
  check_steps(update, {8.0, 0}, {2.0, 1024.0, 3}, "..o..o...", grading);
  check_steps(update, {65536.0, 0}, {1.0, 262144.0, 1}, ".....", grading);
  check_steps(update, {4.0, 0}, {1.5, 64.0, 2}, "oo.o..", grading);
  check_steps(update, {1.0, 1998}, {1.0, 16777216.0, 2000}, "..o", grading);
  check_steps(update, {3.0, 0}, {1.0, 10.0, 2}, "........", grading);
}

// Gradients of a rank: exact when divided; one of them is `bad`, if this rank is where it is.
std::vector<float> gradients_of(int rank, std::size_t elements, float scale, bool here, float bad, std::size_t at) {
  std::vector<float> gradients(elements);
  for (std::size_t i = 0; i < elements; ++i)
    gradients[i] = scale * (static_cast<float>(i % 11) - 4.5f) * 0.125f * static_cast<float>(rank + 1);
  if (here && elements > 0) gradients[at % elements] = bad;
  return gradients;
}

struct Overflow {
  const char* name;
  float value;
};
constexpr std::array kOverflows{Overflow{"infinity", std::numeric_limits<float>::infinity()},
                                Overflow{"NaN", std::numeric_limits<float>::quiet_NaN()},
                                Overflow{"-infinity", -std::numeric_limits<float>::infinity()}};

// Rank `where` has the bad number; -1: none has.
void check_decision(bool (*check)(lab::Link&, std::span<float>, float), int ranks, std::size_t elements, int where,
                    const Overflow& bad) {
  const float scale = 1024.0f;
  std::vector<Guarded> data;
  std::vector<std::vector<float>> before;
  for (int rank = 0; rank < ranks; ++rank) {
    // Ranks have different numbers of gradients: of a pipeline they do.
    before.push_back(gradients_of(rank, elements + static_cast<std::size_t>(rank), scale, rank == where, bad.value,
                                  elements / 2 + static_cast<std::size_t>(rank)));
    data.emplace_back(before.back());
  }
  std::vector<int> answers(static_cast<std::size_t>(ranks), -1);
  const Traffic traffic = run_ranks(ranks, [&](lab::Link& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    answers[rank] = check(link, data[rank].span(), scale) ? 1 : 0;
  });
  for (std::size_t rank = 0; rank < data.size(); ++rank) {
    data[rank].check(fmt::format("on rank {}, gradients", rank));
    for (std::size_t i = 0; i < data[rank].size(); ++i) {
      if (!std::isfinite(before[rank][i]) || data[rank][i] == before[rank][i] / scale) continue;
      reject("on rank {}, gradient {} is {:g} after it was {:g}: it is {}", rank, i, data[rank][i], before[rank][i],
             data[rank][i] == before[rank][i] ? "not divided by the scale" : "not that divided by the scale");
    }
    const bool expected = where >= 0 && !before[static_cast<std::size_t>(where)].empty();
    if (answers[rank] != (expected ? 1 : 0))
      reject("rank {} answers {}, although {}", rank, answers[rank] == 1,
             !expected ? "all gradients of all ranks are finite"
             : static_cast<int>(rank) == where
                 ? fmt::format("a gradient of its own is {}", bad.name)
                 : fmt::format("a gradient of rank {} is {}: it would step while others skip", where, bad.name));
    if (traffic.elements_sent[rank] > 2 * (ranks - 1))
      reject("rank {} sends {} numbers: whether a gradient is not finite is one number, not all gradients", rank,
             traffic.elements_sent[rank]);
  }
}

void grade_check(const Library& library, Grading& grading) {
  auto* check = library.function<bool(lab::Link&, std::span<float>, float)>("unscale_and_check");
  for (const int ranks : {2, 1, 3, 4, 8}) {
    for (const std::size_t elements : {std::size_t{9}, std::size_t{1}, std::size_t{0}, std::size_t{100}}) {
      for (const int where : {-1, 0, ranks - 1, ranks / 2}) {
        for (const Overflow& bad : kOverflows) {
          const std::string what = where < 0 ? "all finite" : fmt::format("{} on rank {}", bad.name, where);
          grading.begin(fmt::format("{}, {} on rank 0, {}", counted(ranks, "rank"),
                                    counted(static_cast<Count>(elements), "gradient"), what));
          check_decision(check, ranks, elements, where, bad);
        }
      }
    }
  }
}

std::string_view name_of_type(Type type) {
  return type == Type::fp32 ? "fp32" : type == Type::bf16 ? "bf16" : type == Type::fp16 ? "fp16" : "no type";
}

void check_type(const char* what, Type found, Type expected, const char* why) {
  if (found != expected) reject("{} is {}: {}", what, name_of_type(found), why);
}

void check_policy(Policy (*policy)(std::string_view), std::string_view name, Type compute, bool loss_scaling) {
  const Policy found = policy(name);
  check_type("compute", found.compute, compute, "the policy is named after the type that layers compute in");
  check_type("reduce", found.reduce, Type::fp32, "a sum over many ranks loses the small ones in 16 bits (5.4)");
  check_type("master", found.master, Type::fp32, "updates are smaller than the gaps of 16 bits (5.2)");
  if (found.loss_scaling != loss_scaling)
    reject("loss_scaling is {}: {}", found.loss_scaling,
           loss_scaling ? "small gradients become 0 in fp16" : "this type has the exponents of fp32, so nothing needs scaling");
}

void check_refused(Policy (*policy)(std::string_view), std::string_view name) {
  try {
    policy(name);
  } catch (const std::invalid_argument& error) {
    const std::string words = error.what();
    if (!name.empty() && words.find(name) == std::string::npos)
      reject("the error does not say which name was wrong: \"{}\"", words);
    for (const char* right : {"fp32", "bf16", "fp16"}) {
      if (words.find(right) == std::string::npos) reject("the error does not say that {} would be right: \"{}\"", right, words);
    }
    return;
  } catch (const lab::NotWritten&) {
    throw;
  } catch (const std::exception& error) {
    reject("it throws another exception than std::invalid_argument: \"{}\"", error.what());
  }
  reject("it takes a name that there is not: whoever mistypes the policy trains in another one, and does not know");
}

void grade_policy(const Library& library, Grading& grading) {
  auto* policy = library.function<Policy(std::string_view)>("precision_policy");
  const std::array<std::pair<std::string_view, Type>, 3> names{
      {{"fp32", Type::fp32}, {"bf16", Type::bf16}, {"fp16", Type::fp16}}};
  for (const auto& [name, type] : names) {
    grading.begin(fmt::format("the name {}", name));
    check_policy(policy, name, type, type == Type::fp16);
  }
  for (const std::string_view name : {"fp8", "bf-16", "BF16", "fp161", "bf", "float"}) {
    grading.begin(fmt::format("the name {}", name));
    check_refused(policy, name);
  }
  grading.begin("an empty name");
  check_refused(policy, "");
}

// In a run it is what a step does to the factor of the loss.
void use_loss_scale(const Library& library) {
  use_own_loss_scale_rule([library, update = library.function<UpdateScale>("loss_scale_update")](
                              double& scale, Count& good_steps, const LossScaleOptions& options, bool overflowed) {
    State state{.scale = scale, .good_steps = good_steps};
    const Rule rule{.minimum = options.minimum, .largest = options.largest(), .growth_interval = options.growth_interval};
    try {
      const bool goes_on = update(state, rule, overflowed);
      scale = state.scale;
      good_steps = state.good_steps;
      return goes_on;
    } catch (const lab::NotWritten&) {  // on all ranks alike
      throw SharedError(ExitCode::usage, "loss_scale_update is not written yet");
    }
  });
}

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 5,
      .folder = "05_precision",
      .title = "Mixed precision",
      .minutes = 120,
      .run_file = "lab05_precision.toml",
      .ranks = 2,
      .exercises = {{.name = "round_to_bf16", .task = "to nearest, ties to even", .grade = grade_rounding},
                    {.name = "format_facts", .task = "range, gaps, and updates that vanish", .grade = grade_facts},
                    {.name = "round_stochastically", .task = "up or down by chance, right on average", .grade = grade_stochastic},
                    {.name = "sum_both_ways", .task = "in bf16, and in fp32", .grade = grade_sums},
                    {.name = "loss_scale_update",
                     .task = "halve and skip, double later",
                     .grade = grade_loss_scale,
                     .use = use_loss_scale},
                    {.name = "unscale_and_check", .task = "one decision on all ranks", .grade = grade_check},
                    {.name = "precision_policy", .task = "types by name", .grade = grade_policy}},
      .questions = {{"q1", [] { return std::ldexp(1.0, -7) / 2.0; }, 0.01},
                    {"q2", [] { return std::floor(std::log2(65504.0 / 5.0)); }, 0.0},
                    {"q3", [] { return 16.0 * 124.4e6 / 1e9; }},
                    {"q4", [] { return std::log2(65536.0 / 4096.0); }, 0.0},
                    {"q5", [] { return 256.0; }, 0.0}}};
  return kLab;
}

}  // namespace cohort::labs::lab05_precision
