#include "parallel/context/sequence_split.hpp"

#include "base/error.hpp"
#include "ops/partial_attention.hpp"

namespace cohort {

SequenceSplit::SequenceSplit(Count tokens, int ranks) : tokens_(tokens), ranks_(ranks) {
  COHORT_CHECK(ranks > 0, "a sequence over {} ranks", ranks);
  const Count chunks = 2 * static_cast<Count>(ranks);
  if (tokens > 0 && tokens % chunks == 0) return;
  const Count below = tokens / chunks * chunks, above = below + chunks;
  const std::string nearest = below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
  fail(ExitCode::config,
       "context parallelism over {} ranks cuts each sample into {} equal chunks, which does not divide {} tokens: set "
       "model.context to {}, or parallel.cp to a degree whose double divides {}",
       ranks, chunks, tokens, nearest, tokens);
}

ops::TokenRows SequenceSplit::rows_of(int rank) const {
  COHORT_CHECK(rank >= 0 && rank < ranks_, "rank {} of {}", rank, ranks_);
  const Count chunk = tokens_ / (2 * ranks_);
  return {tokens_, {ops::TokenRun{0, rank * chunk, chunk}, ops::TokenRun{chunk, (2 * ranks_ - 1 - rank) * chunk, chunk}}};
}

std::vector<std::int32_t> SequenceSplit::part_of(int rank, std::span<const std::int32_t> whole) const {
  const auto length = static_cast<std::size_t>(tokens_);
  COHORT_CHECK(whole.size() % length == 0, "{} values for samples of {} tokens", whole.size(), tokens_);
  const ops::TokenRows rows = rows_of(rank);
  std::vector<std::int32_t> part;
  part.reserve(whole.size() / static_cast<std::size_t>(ranks_));
  for (std::size_t sample = 0; sample < whole.size(); sample += length) {
    for (const ops::TokenRun& run : rows.runs) {
      const auto tokens = whole.subspan(sample + static_cast<std::size_t>(run.position), static_cast<std::size_t>(run.count));
      part.insert(part.end(), tokens.begin(), tokens.end());
    }
  }
  return part;
}

std::vector<SequenceSplit::RunPair> SequenceSplit::visible_runs(int rank, int owner) const {
  std::vector<RunPair> pairs;
  for (const ops::TokenRun& queries : rows_of(rank).runs) {
    for (const ops::TokenRun& keys : rows_of(owner).runs) {
      if (ops::visible_pairs(queries, keys) > 0) pairs.push_back({queries, keys});
    }
  }
  return pairs;
}

}  // namespace cohort
