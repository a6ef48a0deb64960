// A corpus of simple English stories for training small language models, with a known floor of the loss.
//
// Story number i of a seed is a pure function of (seed, i). Stories are ASCII text, end with an empty line and are independent of
// each other; a corpus is stories 0, 1, 2, ... one after the other.
//
// The floor. The grammar is known and gives each story one derivation only, so
//   entropy = E[-log p(story)] / E[characters of a story]     in nats per character
// is exact: both expectations are computed from the grammar (story_grammar.hpp), none is sampled. It is the entropy rate of the
// endless stream of stories, hence the least mean loss per character that any model can have on stories it has not seen:
//   - per character, that is, per token of a byte or character tokenizer (ASCII: one byte, one character, one token);
//   - averaged over many stories of a fresh part of the stream, such as the validation split. A particular text differs from it
//     by chance, by about the spread of -log p over sqrt(stories): what this very text costs under the grammar itself is given
//     beside it ("empirical");
//   - a model that has memorised its training text can be below it on that text; one with a limited context, which does not see
//     the beginning of its story, stays above it.
#pragma once

#include <optional>
#include <string>

#include "base/units.hpp"
#include "data/progress_callback.hpp"
#include "data/story_grammar.hpp"

namespace cohort {

/// The grammar of the stories, read once.
const StoryGrammar& story_grammar();

/// Story `index` of `seed`, with its log-probability.
GrammarText make_story(std::uint64_t seed, std::uint64_t index);

/// Exact, from the grammar.
double story_entropy_nats_per_character();

/// What is known about a synthetic corpus; written beside it as FILE.json and carried on into the token file.
struct CorpusFacts {
  std::uint64_t seed = 0;
  Count stories = 0;
  Bytes bytes = 0;
  std::uint32_t crc32 = 0;                  // of the text
  double entropy_nats_per_character = 0;    // exact
  double empirical_nats_per_character = 0;  // -log p of this very text / its characters
};

/// FILE.json
std::string corpus_facts_path(const std::string& path);

/// Writes a corpus to `path`, and its facts to `path`.json, each by temporary name and rename. Exactly one of the sizes is
/// positive: `stories` many, or whole stories until the text has at least `bytes`. Throws Error(usage) for sizes, Error(io) for
/// the file.
CorpusFacts write_story_corpus(const std::string& path, std::uint64_t seed, Count stories, Bytes bytes,
                               const Progress& progress = {});

/// The facts beside a text file, if it was made by write_story_corpus and not changed since, for which it is read; else nothing.
/// Throws Error(data) if `path`.json claims to be facts of ours and cannot be read.
std::optional<CorpusFacts> read_corpus_facts(const std::string& path);

}  // namespace cohort
