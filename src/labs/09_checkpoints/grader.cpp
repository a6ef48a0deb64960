// Lab 9: saving that survives crashes (grade_saving.cpp), a state that is whole (grade_state.cpp), and shards: gathered, moved,
// kept.
#include <algorithm>
#include <cmath>
#include <cohort/lab09_checkpoints.hpp>
#include <limits>
#include <numeric>
#include <vector>

#include "base/text.hpp"
#include "checkpoint/store/retention.hpp"
#include "labs/09_checkpoints/grade_saving.hpp"
#include "labs/09_checkpoints/grade_state.hpp"
#include "labs/grading/guarded.hpp"
#include "labs/grading/ranks.hpp"
#include "labs/labs.hpp"

namespace cohort::labs::lab09_checkpoints {
namespace {

using Sizes = std::vector<std::size_t>;

std::string in_words(const Sizes& sizes) {
  std::vector<std::string> words;
  for (const std::size_t size : sizes) words.push_back(std::to_string(size));
  return words.empty() ? "no shards" : join(words, "+");
}

std::size_t sum(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}); }

// The shard that has this element.
std::size_t owner(const Sizes& sizes, std::size_t element) {
  std::size_t rank = 0;
  for (std::size_t end = sizes[0]; element >= end; end += sizes[rank]) ++rank;
  return rank;
}

// 9.3
void check_gathered(const Guarded& whole, const Sizes& sizes) {
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const float right = static_cast<float>(i + 1), found = whole[i];
    if (found == right) continue;
    const bool another = found >= 1.0f && found <= static_cast<float>(whole.size()) && found == std::floor(found);
    reject("on rank 0, element {} of the whole, which is of shard {}, {}", i, owner(sizes, i),
           another ? fmt::format("holds that of element {}", static_cast<int>(found) - 1) : "is missing");
  }
}

void grade_gather(const Library& library, Grading& grading) {
  auto* gather = library.function<void(lab::Link&, std::span<const float>, std::span<const std::size_t>, std::span<float>)>(
      "gather_sharded");
  for (const Sizes& sizes : {Sizes{3, 3}, Sizes{5}, Sizes{4, 4, 4, 1}, Sizes{2, 5, 3}, Sizes{0, 3, 0, 2}, Sizes{6, 0},
                             Sizes{0, 0, 0}, Sizes{100, 1, 37, 0, 64, 13, 2, 9}}) {
    grading.begin(fmt::format("shards of {} elements", in_words(sizes)));
    const int ranks = static_cast<int>(sizes.size());
    Guarded whole(std::vector<float>(sum(sizes), -1.0f));
    std::vector<Guarded> shards;
    float next = 1.0f;
    for (const std::size_t size : sizes) {
      std::vector<float> shard(size);
      std::iota(shard.begin(), shard.end(), next);
      next += static_cast<float>(size);
      shards.emplace_back(std::move(shard));
    }
    const Traffic traffic = run_ranks(ranks, [&](lab::Link& link) {
      gather(link, shards[static_cast<std::size_t>(link.rank())].span(), sizes,
             link.rank() == 0 ? whole.span() : std::span<float>());
    });
    whole.check("on rank 0, the whole");
    check_gathered(whole, sizes);
    for (int rank = 0; rank < ranks; ++rank) {
      const Count sent = traffic.elements_sent[static_cast<std::size_t>(rank)];
      const Count own = rank == 0 ? 0 : static_cast<Count>(sizes[static_cast<std::size_t>(rank)]);
      if (sent > own && rank == 0) reject("rank 0 sends {} elements: the others then hold more than their shards", sent);
      if (sent > own)
        reject("rank {} sends {} elements, but its shard has {}: it sends it to others than rank 0, or what it got of them", rank,
               sent, own);
    }
  }
}

// 9.4
void check_moves(const Sizes& old_sizes, const Sizes& new_sizes, const std::vector<ShardMove>& moves) {
  const std::size_t elements = sum(old_sizes);
  std::size_t next = 0;  // the element that the next move must begin with
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const ShardMove& move = moves[i];
    if (move.elements == 0) reject("move {}, from {} to {}, has no elements", i, move.from, move.to);
    if (move.begin > next) reject("element {} goes nowhere: move {} begins with element {}", next, i, move.begin);
    if (move.begin < next)
      reject("element {} goes twice, or out of order: move {} begins with it, and those before end with {}", move.begin, i,
             next - 1);
    next = move.begin + move.elements;
    if (next > elements) reject("move {} ends with element {}, but there are {}", i, next - 1, elements);
    for (const std::size_t element : {move.begin, next - 1}) {
      if (move.from != owner(old_sizes, element))
        reject("element {} is taken from rank {}, but rank {} has it", element, move.from, owner(old_sizes, element));
      if (move.to != owner(new_sizes, element))
        reject("element {} goes to rank {}, but it belongs to rank {} then", element, move.to, owner(new_sizes, element));
    }
    if (i > 0 && moves[i - 1].from == move.from && moves[i - 1].to == move.to)
      reject("moves {} and {} go both from rank {} to rank {}: one is enough", i - 1, i, move.from, move.to);
  }
  if (next != elements) reject("element {} goes nowhere: the moves end before it", next);
}

void grade_reshard(const Library& library, Grading& grading) {
  auto* plan =
      library.function<void(std::span<const std::size_t>, std::span<const std::size_t>, std::vector<ShardMove>&)>("reshard_plan");
  const std::vector<std::pair<Sizes, Sizes>> layouts{
      {{6, 6}, {4, 4, 4}}, {{4, 4, 4}, {6, 6}},          {{12}, {3, 3, 3, 3}},         {{3, 3, 3, 3}, {12}},
      {{5, 5}, {5, 5}},    {{4, 3, 3}, {2, 2, 2, 2, 2}}, {{0, 7, 0, 3}, {5, 0, 5}},    {{1, 0, 0, 9}, {0, 0, 10}},
      {{0, 0}, {0}},       {{7, 1, 1, 1}, {1, 1, 8}},    {{3, 4, 5, 6}, {6, 5, 4, 3}}, {{10}, {10, 0}}};
  for (const auto& [old_sizes, new_sizes] : layouts) {
    grading.begin(fmt::format("{} becomes {}", in_words(old_sizes), in_words(new_sizes)));
    std::vector<ShardMove> moves;
    plan(old_sizes, new_sizes, moves);
    check_moves(old_sizes, new_sizes, moves);
  }
}

// 9.5
using KeepLast = void(std::span<const SavedCheckpoint>, const RetentionRule&, std::vector<std::int64_t>&);

constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

std::string why_kept(const std::vector<SavedCheckpoint>& saved, const RetentionRule& rule, const SavedCheckpoint& one) {
  if (!one.whole) return "it is not whole";
  Count newer = 0;
  bool best = !std::isnan(one.validation_loss);
  for (const SavedCheckpoint& other : saved) {
    if (!other.whole) continue;
    newer += other.step > one.step;
    const bool better =
        other.validation_loss < one.validation_loss || (other.validation_loss == one.validation_loss && other.step > one.step);
    best = best && !better;
  }
  if (rule.last == 0) return "last is 0: all are kept";
  if (newer < rule.last) return fmt::format("it is among the {} newest that are whole", rule.last);
  if (rule.every > 0 && one.step % rule.every == 0) return fmt::format("its step is a multiple of {}", rule.every);
  if (rule.best && best) return fmt::format("its validation loss of {:g} is the least", one.validation_loss);
  return "";
}

void check_kept(const std::vector<SavedCheckpoint>& saved, const RetentionRule& rule, const std::vector<std::int64_t>& deleted) {
  for (const std::int64_t step : deleted) {
    if (std::none_of(saved.begin(), saved.end(), [&](const SavedCheckpoint& one) { return one.step == step; }))
      reject("step {} is to be deleted, and was never saved", step);
  }
  for (const SavedCheckpoint& one : saved) {
    const bool gone = std::count(deleted.begin(), deleted.end(), one.step) > 0;
    const std::string why = why_kept(saved, rule, one);
    if (gone && !why.empty()) reject("step {} is deleted, but {}", one.step, why);
    if (!gone && why.empty()) reject("step {} is kept, but no rule keeps it", one.step);
  }
  for (std::size_t i = 1; i < deleted.size(); ++i) {
    if (deleted[i] <= deleted[i - 1]) reject("the steps are not ascending: {} after {}", deleted[i], deleted[i - 1]);
  }
}

void grade_retention(const Library& library, Grading& grading) {
  auto* keep = library.function<KeepLast>("keep_last");
  const double nan = kUnmeasured;
  const std::vector<std::vector<SavedCheckpoint>> folders{
      {{100, true, nan}, {200, true, nan}, {300, true, nan}, {400, true, nan}},
      {{1000, true, 2.0},
       {200, true, 1.5},
       {900, true, 1.5},
       {3000, true, 2.5},
       {400, true, nan}},  // as names sort: 1000 before 200
      {{100, true, 1.0}, {200, true, 2.0}, {300, false, 0.5}, {400, true, nan}, {500, false, nan}},
      {{100, true, nan}, {200, true, 3.0}, {300, true, 3.0}, {400, true, 4.0}, {500, true, 5.0}, {600, true, 6.0}},
      {{50, true, 9.0}},
      {}};
  for (const RetentionRule& rule : {RetentionRule{2, 0, false}, RetentionRule{1, 0, true}, RetentionRule{1, 200, false},
                                    RetentionRule{0, 0, false}, RetentionRule{3, 1000, true}, RetentionRule{9, 0, false}}) {
    for (const std::vector<SavedCheckpoint>& saved : folders) {
      std::vector<std::string> words;
      for (const SavedCheckpoint& one : saved)
        words.push_back(fmt::format("{}{}{}", one.step, one.whole ? "" : " (not whole)",
                                    std::isnan(one.validation_loss) ? "" : fmt::format(" (loss {:g})", one.validation_loss)));
      grading.begin(fmt::format("last {}, every {}, best {}, steps {}", rule.last, rule.every, rule.best,
                                words.empty() ? "none" : join(words)));
      std::vector<std::int64_t> deleted;
      keep(saved, rule, deleted);
      check_kept(saved, rule, deleted);
    }
  }
}

// In a run it decides, after each save, what is deleted.
void use_retention(const Library& library) {
  auto* keep = library.function<KeepLast>("keep_last");
  try {
    std::vector<std::int64_t> none;
    keep({}, {.last = 1, .every = 0, .best = false}, none);
  } catch (const lab::NotWritten&) {
    reject("keep_last is not written yet");
  }
  use_own_retention([library, keep](const std::vector<RetentionCandidate>& candidates, const Retention& retention) {
    std::vector<SavedCheckpoint> saved;
    for (const RetentionCandidate& one : candidates) saved.push_back({one.step, one.sound, one.validation_loss});
    const RetentionRule rule{static_cast<int>(retention.keep), retention.keep_every, retention.keep_best};
    std::vector<std::int64_t> deleted;
    keep(saved, rule, deleted);
    return std::vector<Count>(deleted.begin(), deleted.end());
  });
}

}  // namespace

const Lab& lab() {
  static const Lab kLab{.number = 9,
                        .folder = "09_checkpoints",
                        .title = "Checkpoints",
                        .minutes = 120,
                        .run_file = "lab09_checkpoints.toml",
                        .ranks = 4,
                        .exercises = {{"save_atomically", "the old one or the new one, whatever happens", grade_saving},
                                      {"save_checkpoint", "all that a training needs to continue bit for bit", grade_state},
                                      {"gather_sharded", "the whole model on one rank, its shards elsewhere", grade_gather},
                                      {"reshard_plan", "who sends what to whom, for another layout", grade_reshard},
                                      {"keep_last", "which old ones may go", grade_retention, use_retention}},
                        .questions = {{"q1", [] { return 124.4e6 * 12.0 / 1e9; }},
                                      {"q2", [] { return 70.0 * 12.0 / 2.0; }},
                                      {"q3", [] { return 70.0 * 12.0 / 64.0 / 3.0; }},
                                      {"q4", [] { return 4.0 + 6.0 - 2.0; }}}};
  return kLab;
}

}  // namespace cohort::labs::lab09_checkpoints
