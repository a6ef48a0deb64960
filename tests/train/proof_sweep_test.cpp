// The proof on random small runs in random layouts: it must not cry wolf, and must not miss a planted fault. The runs follow from
// a seed and a number alone, so that each can be run again:
//   COHORT_PROOFS=200 COHORT_PROOF_SEED=1 mpirun -np 4 test_proof_sweep
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "base/random.hpp"
#include "base/text.hpp"
#include "planted_faults.hpp"
#include "trainer_fixture.hpp"

namespace cohort::test {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// What is drawn for one run, one number after the other.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint32_t number) : random_(seed, RandomPurpose::test, number) {}
  std::size_t below(std::size_t n) { return random_.u64(next_++) % n; }
  template <class T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  double log_uniform(double low, double high) { return low * std::pow(high / low, random_.uniform(next_++)); }

 private:
  CounterRandom random_;
  std::uint64_t next_ = 0;
};

struct Case {
  std::vector<std::string> overrides;
  RunConfig run;
  Layout layout;
};

class ProofSweep : public TrainerTest {
 protected:
  static constexpr Count kSteps = 4;

  static std::vector<std::string> draw_run(Draws& draws) {
    std::vector<std::string> keys;
    const auto set = [&](const char* key, const auto& value) { keys.push_back(fmt::format("{}={}", key, value)); };
    const Count heads = draws.of<Count>({2, 4});
    set("run.seed", draws.below(1000));
    set("model.layers", draws.of({1, 2, 2, 4}));
    set("model.heads", heads);
    set("model.width", draws.of<Count>({16, 24, 48}) / 4 * 4);
    set("model.context", draws.of({8, 16}));
    set("data.documents", draws.of<const char*>({"joined", "separate"}));
    // Mostly few rows; sometimes many more than the text uses, whose gradients are tiny.
    set("model.vocabulary", draws.of({21, 22, 37, 64, 1000, draws.below(8) == 0 ? 50257 : 3000}));
    set("model.tied_head", draws.of({true, false}));
    set("model.activation_checkpointing", draws.of<const char*>({"full", "none", "selective"}));
    set("train.global_batch", draws.of({2, 4, 6, 12, 18}));
    set("train.micro_batch", draws.of({1, 2, 3, 4}));
    set("train.clip_norm", draws.of({0.0, 0.5, 1.0}));
    set("optimizer.learning_rate", draws.log_uniform(3e-4, 5e-2));
    set("optimizer.kind", draws.of<const char*>({"adamw", "adamw", "muon"}));
    set("optimizer.beta2", draws.of({0.95, 0.999}));
    set("optimizer.weight_decay", draws.of({0.1, 0.01}));
    set("schedule.warmup_steps", draws.of({0, 2}));
    const std::string kind = draws.of<std::string>({"gpt2", "gpt2", "llama", "qwen3"});
    set("model.kind", kind);
    if (kind == "gpt2") {
      set("model.dropout", draws.of({0.0, 0.1}));
    } else {
      set("model.kv_heads", draws.of<Count>({2, heads}));
    }
    if (kind == "qwen3") set("model.head_size", draws.of<Count>({0, 4, 10}));
    return keys;
  }

  // The first run that can be had, in one of its layouts.
  Case draw(std::uint64_t seed, std::uint32_t number) {
    Draws draws(seed, number);
    const int ranks = static_cast<int>(draws.below(static_cast<std::size_t>(world_->size()))) + 1;
    for (;;) {
      Case drawn{.overrides = draw_run(draws), .run = {}, .layout = {}};
      try {
        drawn.run = config_without_layout(drawn.overrides);
        std::vector<std::string> refused;
        const std::vector<Layout> layouts = all_layouts(drawn.run, ranks, refused);
        if (layouts.empty()) continue;
        drawn.layout = layouts[draws.below(layouts.size())];
        return drawn;
      } catch (const Error&) {  // a run that is refused: another one
      }
    }
  }

  RunConfig config_without_layout(const std::vector<std::string>& overrides) const { return config(overrides, 1); }

  std::string describe(const Case& drawn) const { return fmt::format("{} of {}", drawn.layout.name, join(drawn.overrides, " ")); }
};

TEST_F(ProofSweep, NeitherCriesWolfNorMissesAFault) {
  const auto proofs = static_cast<std::uint32_t>(from_environment("COHORT_PROOFS", 40));
  const std::uint64_t seed = from_environment("COHORT_PROOF_SEED", 1);
  const bool all_faults = proofs > 8;
  ProofResult worst;
  std::map<std::string, std::pair<int, int>> found;  // by fault: planted, found
  for (std::uint32_t number = 0; number < proofs; ++number) {
    Case drawn = draw(seed, number);
    SCOPED_TRACE(fmt::format("run {} of seed {}: {}", number, seed, describe(drawn)));
    const RunData data = open_data(*world_, drawn.run, DataUse::training);
    const Tolerance tolerance = proof_tolerance(drawn.run.precision);
    const std::vector<double> curve = losses_of_one_rank(drawn.run, data, *world_, kSteps);
    const auto result_of = [&](Fault fault) {
      const std::unique_ptr<Communicator> world = with_fault(*world_, fault, drawn.layout.config);
      return prove(drawn.run, drawn.layout, data, *world, curve, tolerance, after_step_of(fault, drawn.layout.config));
    };
    const ProofResult honest = result_of(Fault::none);
    EXPECT_TRUE(honest.equal()) << honest.differences.front().what << " at step " << honest.differences.front().step << ": "
                                << honest.differences.front().difference;
    for (double ProofResult::*number_of :
         {&ProofResult::losses, &ProofResult::norms, &ProofResult::gradients, &ProofResult::weights, &ProofResult::curve})
      worst.*number_of = std::max(worst.*number_of, honest.*number_of);
    std::vector<Fault> faults;
    for (const Fault fault : kFaults) {
      if (applies(fault, drawn.layout.config)) faults.push_back(fault);
    }
    if (!all_faults && faults.size() > 1) faults = {faults[number % faults.size()]};
    for (const Fault fault : faults) {
      const ProofResult faulty = result_of(fault);
      auto& [planted, caught] = found[name_of(fault)];
      ++planted;
      caught += faulty.equal() ? 0 : 1;
      EXPECT_FALSE(faulty.equal()) << "missed: " << name_of(fault);
    }
  }
  if (!root()) return;
  fmt::print("{} runs of seed {}, at worst: loss {:.1e}, norm {:.1e}, gradients {:.1e}, weights {:.1e}; loss curve {:.1e}\n",
             proofs, seed, worst.losses, worst.norms, worst.gradients, worst.weights, worst.curve);
  for (const auto& [name, counts] : found) fmt::print("  {}: planted {}, found {}\n", name, counts.first, counts.second);
}

}  // namespace
}  // namespace cohort::test
