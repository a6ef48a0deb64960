// Lab 6: bytes and names by the papers' formulas, and units of a tree. Shards and messages are graded in memory_shards.cpp,
// recomputation and accumulation in memory_activations.cpp.
#include <array>
#include <cmath>
#include <cohort/lab06_memory.hpp>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "labs/06_memory/memory_activations.hpp"
#include "labs/06_memory/memory_shards.hpp"
#include "labs/labs.hpp"

namespace cohort::labs::lab06_memory {
namespace {

using MemoryOfStage = StateBytes(double, int, int);

constexpr double kOptimizerBytes = 12.0;  // K of the ZeRO paper: fp32 weights, momentum, variance

StateBytes bytes_of(double parameters, int ranks, int stage) {
  const auto share = [&](int from) { return stage >= from ? parameters / ranks : parameters; };
  return {2.0 * share(3), 2.0 * share(2), kOptimizerBytes * share(1)};
}

double sum_of(const StateBytes& bytes) { return bytes.parameters + bytes.gradients + bytes.optimizer; }

struct KnownBytes {
  double value;
  const char* why;
};

void check_bytes(const char* what, double found, double expected, const std::vector<KnownBytes>& known) {
  if (std::fabs(found - expected) <= 1e-9 * expected) return;  // of rounding
  for (const auto& [wrong, why] : known) {
    if (std::fabs(found - wrong) <= 1e-9 * wrong) reject("{} takes {:.6g} bytes: {}", what, found, why);
  }
  reject("{} takes {:.6g} bytes, which is {:.4g} times what it should be", what, found, found / expected);
}

template <class Call>
void check_throws(const char* what, std::string_view wanted, Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    if (std::string_view(error.what()).find(wanted) == std::string_view::npos)
      reject("the error does not say what was wrong, {}: \"{}\"", wanted, error.what());
    return;
  } catch (const lab::NotWritten&) {
    throw;
  } catch (const std::exception& error) {
    reject("it throws another exception than std::invalid_argument: \"{}\"", error.what());
  }
  reject("it takes {}: a mistake in a run file would pass unseen", what);
}

void grade_memory(const Library& library, Grading& grading) {
  auto* memory = library.function<MemoryOfStage>("memory_of_stage");
  for (const double parameters : {7.5e9, 124.4e6, 1000.0}) {
    for (const int ranks : {64, 1, 3, 1024}) {
      for (const int stage : {0, 1, 2, 3}) {
        grading.begin(fmt::format("{:g} parameters, {}, stage {}", parameters, counted(ranks, "rank"), stage));
        const StateBytes found = memory(parameters, ranks, stage), expected = bytes_of(parameters, ranks, stage);
        const double whole = parameters, part = parameters / ranks;
        check_bytes("optimizer", found.optimizer, expected.optimizer,
                    {{8.0 * whole, "Adam has two moments, and the fp32 weights that it updates are its own, too"},
                     {8.0 * part, "Adam has two moments, and the fp32 weights that it updates are its own, too"},
                     {12.0 * whole, "from stage 1 on it is divided"},
                     {12.0 * part, "in stage 0 nothing is divided"}});
        check_bytes("gradients", found.gradients, expected.gradients,
                    {{2.0 * whole, "from stage 2 on they are divided"},
                     {2.0 * part, "they are not divided before stage 2"},
                     {4.0 * whole, "they are of 16 bits"},
                     {4.0 * part, "they are of 16 bits"}});
        check_bytes("parameters", found.parameters, expected.parameters,
                    {{2.0 * whole, "in stage 3 the weights are divided, too"},
                     {2.0 * part, "weights that layers read are whole before stage 3"},
                     {4.0 * whole, "layers read 16 bits; the fp32 weights count among the optimizer's 12"},
                     {4.0 * part, "layers read 16 bits; the fp32 weights count among the optimizer's 12"}});
      }
    }
  }
  for (const int stage : {-1, 4}) {
    grading.begin(fmt::format("stage {}", stage));
    check_throws("a stage that there is not", "", [&] { memory(1000.0, 4, stage); });
  }
}

struct NamedSharding {
  std::string_view name;
  Sharding sharding;
};
constexpr std::array kShardings{
    NamedSharding{"NO_SHARD", {false, false, false, false}},    NamedSharding{"FULL_SHARD", {true, true, true, false}},
    NamedSharding{"SHARD_GRAD_OP", {true, true, false, false}}, NamedSharding{"HYBRID_SHARD", {true, true, true, true}},
    NamedSharding{"zero0", {false, false, false, false}},       NamedSharding{"zero1", {true, false, false, false}},
    NamedSharding{"zero2", {true, true, false, false}},         NamedSharding{"zero3", {true, true, true, false}}};

void check_divided(const char* what, bool found, bool expected) {
  if (found != expected) reject("{} {} divided, you say: look up what is", what, found ? "are" : "are not");
}

void grade_sharding(const Library& library, Grading& grading) {
  auto* sharding_of = library.function<Sharding(std::string_view)>("sharding_of");
  for (const auto& [name, expected] : kShardings) {
    grading.begin(std::string(name));
    const Sharding found = sharding_of(name);
    check_divided("the optimizer's states", found.optimizer, expected.optimizer);
    check_divided("gradients", found.gradients, expected.gradients);
    check_divided("parameters", found.parameters, expected.parameters);
    if (found.within_a_node != expected.within_a_node)
      reject("within_a_node is {}: {}", found.within_a_node,
             expected.within_a_node ? "of this one nodes hold replicas of each other" : "all ranks divide one copy");
  }
  for (const std::string_view name : {"zero4", "FULL-SHARD", "ZERO3", "SHARD_OP", "zero"}) {
    grading.begin(std::string(name));
    check_throws("a name that there is not", name, [&] { sharding_of(name); });
  }
}

void grade_smallest(const Library& library, Grading& grading) {
  auto* smallest = library.function<int(double, int, double)>("smallest_stage");
  for (const double parameters : {7.5e9, 1000.0}) {
    for (const int ranks : {64, 4, 1, 1000}) {
      std::vector<double> budgets{1.0, 1e15};
      for (const int stage : {0, 1, 2, 3}) {
        const double bytes = sum_of(bytes_of(parameters, ranks, stage));
        budgets.insert(budgets.end(), {bytes, bytes * 1.01, bytes * 0.99});
      }
      for (const double budget : budgets) {
        grading.begin(fmt::format("{:g} parameters, {}, {:.6g} bytes each", parameters, counted(ranks, "rank"), budget));
        int expected = -1;
        for (int stage = 3; stage >= 0; --stage) {
          if (sum_of(bytes_of(parameters, ranks, stage)) <= budget) expected = stage;
        }
        const int found = smallest(parameters, ranks, budget);
        if (found == expected) continue;
        if (found < -1 || found > 3) reject("it returns {}, which is no stage, and not -1", found);
        if (found == -1)
          reject("it says that nothing fits, but stage {} takes {:.6g} bytes", expected,
                 sum_of(bytes_of(parameters, ranks, expected)));
        const double bytes = sum_of(bytes_of(parameters, ranks, found));
        if (bytes > budget) reject("stage {} takes {:.6g} bytes, which is more", found, bytes);
        reject("stage {} fits, but so does a lower one, which costs less time", found);
      }
    }
  }
}

struct Tree {
  const char* words;
  const char* block;
  std::vector<Module> modules;
};

const std::vector<Tree>& trees() {
  static const std::vector<Tree> kTrees{
      {"a model of two blocks",
       "Block",
       {{"Model", -1, 7.0},
        {"Embedding", 0, 100.0},
        {"Block", 0, 1.0},
        {"Attention", 2, 2.0},
        {"Linear", 3, 30.0},
        {"Linear", 3, 10.0},
        {"Block", 0, 1.0},
        {"Attention", 6, 2.0},
        {"Linear", 7, 50.0},
        {"Linear", 0, 100.0}}},
      {"four blocks of different size",
       "Layer",
       {{"Model", -1, 0.0},
        {"Layer", 0, 5.0},
        {"Linear", 1, 20.0},
        {"Layer", 0, 60.0},
        {"Layer", 0, 10.0},
        {"Linear", 4, 1.0},
        {"Layer", 0, 64.0},
        {"Norm", 0, 3.0}}},
      {"blocks inside of blocks",
       "Block",
       {{"Model", -1, 1.0}, {"Block", 0, 2.0}, {"Linear", 1, 40.0}, {"Block", 1, 8.0}, {"Linear", 3, 16.0}, {"Linear", 1, 32.0}}},
      {"one block", "Block", {{"Model", -1, 4.0}, {"Block", 0, 9.0}, {"Linear", 1, 5.0}}},
      {"no block", "Block", {{"Model", -1, 4.0}, {"Linear", 0, 5.0}}},
      {"a root that is a block", "Block", {{"Block", -1, 4.0}, {"Linear", 0, 5.0}, {"Block", 0, 6.0}}}};
  return kTrees;
}

std::vector<int> units_of(const Tree& tree) {
  std::vector<int> units;
  for (std::size_t i = 0; i < tree.modules.size(); ++i) {
    const Module& module = tree.modules[i];
    const bool begins = i == 0 || module.type == tree.block;
    units.push_back(begins ? static_cast<int>(i) : units[static_cast<std::size_t>(module.parent)]);
  }
  return units;
}

struct Gathered {
  double root, one, two;  // its unit; the largest other; the largest two in a row
};

Gathered gathered_of(const Tree& tree, const std::vector<int>& units) {
  std::vector<double> sizes(units.size(), 0.0), others;
  for (std::size_t i = 0; i < units.size(); ++i) sizes[static_cast<std::size_t>(units[i])] += tree.modules[i].parameters;
  for (std::size_t i = 1; i < units.size(); ++i) {
    if (units[i] == static_cast<int>(i)) others.push_back(sizes[i]);
  }
  Gathered gathered{sizes[0], 0.0, 0.0};
  for (std::size_t i = 0; i < others.size(); ++i) {
    gathered.one = std::max(gathered.one, others[i]);
    gathered.two = std::max(gathered.two, others[i] + (i > 0 ? others[i - 1] : 0.0));
  }
  return gathered;
}

void check_wrap(double (*wrap)(std::span<const Module>, std::string_view, std::span<int>), const Tree& tree) {
  const std::vector<int> expected = units_of(tree);
  std::vector<int> found(tree.modules.size(), -1);
  const double most = wrap(tree.modules, tree.block, found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    const Module& module = tree.modules[i];
    reject("module {}, a {}{}, is in unit {}, but {}", i, module.type,
           module.parent < 0 ? "" : fmt::format(" below module {}", module.parent), found[i],
           expected[i] == static_cast<int>(i) ? "it begins a unit itself"
           : found[i] == static_cast<int>(i) ? fmt::format("no {} begins a unit: each would be a message of its own", module.type)
                                             : "another module that begins a unit is nearer above it");
  }
  const Gathered gathered = gathered_of(tree, expected);
  if (most == gathered.root + gathered.two) return;  // small whole numbers
  const char* why = most == gathered.two                   ? ": the root's unit stays gathered, too"
                    : most == gathered.root + gathered.one ? ": while a unit computes, the next one is gathered already"
                    : most == gathered.one                 ? ": that is the largest unit alone"
                    : most > gathered.root + gathered.two  ? ", more than are there at one time: units are given up after use"
                                                           : ", fewer than are there at one time";
  reject("{:g} parameters are gathered at most, you say{}", most, why);
}

void grade_wrap(const Library& library, Grading& grading) {
  auto* wrap = library.function<double(std::span<const Module>, std::string_view, std::span<int>)>("wrap_policy");
  for (const Tree& tree : trees()) {
    grading.begin(fmt::format("{}, units of type {}", tree.words, tree.block));
    check_wrap(wrap, tree);
  }
}

// For a question: activations of a chain that are held at most, with the best interval.
int least_held(int layers) {
  int least = layers + 1;
  for (int every = 1; every <= layers; ++every) least = std::min(least, (layers + every - 1) / every + every);
  return least;
}

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 6,
      .folder = "06_memory",
      .title = "Memory: ZeRO, checkpoints, accumulation",
      .minutes = 150,
      .run_file = "lab06_memory.toml",
      .ranks = 4,
      .exercises = {{.name = "memory_of_stage", .task = "bytes of a rank, by ZeRO's formulas", .grade = grade_memory},
                    {.name = "sharding_of", .task = "what is divided, by FSDP's names and stages", .grade = grade_sharding},
                    {.name = "smallest_stage", .task = "the least that fits", .grade = grade_smallest},
                    {.name = "wrap_policy", .task = "units of a tree of modules", .grade = grade_wrap},
                    {.name = "shard_bounds", .task = "whose element is it? With padding", .grade = grade_shard_bounds},
                    {.name = "reduce_scatter",
                     .task = "each rank gets the sum of its block",
                     .grade = grade_reduce_scatter,
                     .use = use_reduce_scatter},
                    {.name = "all_gather", .task = "each rank gets all blocks", .grade = grade_all_gather, .use = use_all_gather},
                    {.name = "zero_step", .task = "a step on shards", .grade = grade_zero_step},
                    {.name = "recompute_segments",
                     .task = "keep some activations, compute the others again",
                     .grade = grade_recompute},
                    {.name = "accumulate", .task = "many small batches as one large", .grade = grade_accumulate}},
      .questions = {{"q1", [] { return sum_of(bytes_of(7.5e9, 64, 1)) / 1e9; }, 0.02},
                    {"q2", [] { return 16.0 / (4.0 + 12.0 / 8.0); }, 0.02},
                    {"q3", [] { return least_held(96); }, 0.0},
                    {"q4", [] { return 80e9 / 16.0 / 1e9; }, 0.02},
                    {"q5", [] { return 3.0 * 2.0 * 7.5 * 63.0 / 64.0; }, 0.02},
                    {"q6", [] { return 100.0 / 3.0; }, 0.02}}};
  return kLab;
}

}  // namespace cohort::labs::lab06_memory
