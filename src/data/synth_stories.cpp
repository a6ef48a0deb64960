#include "data/synth_stories.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "data/story_rules.hpp"

namespace cohort {
namespace {

constexpr const char* kFactsFormat = "cohort-story-corpus";

std::uint32_t checksum_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(std::size_t{1} << 20);
  std::uint32_t crc = 0;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0)
    crc = extend_crc32(crc, block.data(), static_cast<std::size_t>(file.gcount()));
  return crc;
}

// Writes blocks to a temporary file; finish() makes it the real one.
class TextWriter {
 public:
  explicit TextWriter(std::string path)
      : path_(std::move(path)), temporary_(path_ + ".tmp"), file_(std::fopen(temporary_.c_str(), "wb")) {
    if (file_ == nullptr) fail(ExitCode::io, "{}: cannot be written: {}", temporary_, std::strerror(errno));
  }
  ~TextWriter() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(temporary_.c_str());
  }
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;

  void write(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size())
      fail(ExitCode::io, "{}: cannot be written: {}", temporary_, std::strerror(errno));
  }
  void finish() {
    if (std::fclose(std::exchange(file_, nullptr)) != 0)
      fail(ExitCode::io, "{}: cannot be written: {}", temporary_, std::strerror(errno));
    commit_file(temporary_, path_);
  }

 private:
  std::string path_;
  std::string temporary_;
  std::FILE* file_;
};

void write_facts(const std::string& path, const CorpusFacts& facts) {
  const nlohmann::ordered_json json{{"format", kFactsFormat},
                                    {"version", 1},
                                    {"seed", facts.seed},
                                    {"stories", facts.stories},
                                    {"bytes", facts.bytes},
                                    {"crc32", facts.crc32},
                                    {"entropy_nats_per_character", facts.entropy_nats_per_character},
                                    {"empirical_nats_per_character", facts.empirical_nats_per_character}};
  write_file_atomically(corpus_facts_path(path), json.dump(2) + "\n");
}

}  // namespace

std::string corpus_facts_path(const std::string& path) { return path + ".json"; }

const StoryGrammar& story_grammar() {
  static const StoryGrammar grammar(std::string(kStoryCharacters) + std::string(kStoryRules));
  return grammar;
}

GrammarText make_story(std::uint64_t seed, std::uint64_t index) {
  const CounterRandom random(seed, RandomPurpose::synth, static_cast<std::uint32_t>(index),
                             static_cast<std::uint32_t>(index >> 32));
  return story_grammar().generate([&](std::uint64_t choice) { return random.uniform(choice); });
}

double story_entropy_nats_per_character() { return story_grammar().expected_nats() / story_grammar().expected_characters(); }

CorpusFacts write_story_corpus(const std::string& path, std::uint64_t seed, Count stories, Bytes bytes,
                               const Progress& progress) {
  if ((stories > 0) == (bytes > 0)) {
    fail(ExitCode::usage,
         "the size of a corpus is a positive number of stories or a positive number of bytes, one of them: got {} and {}",
         stories, bytes);
  }
  CorpusFacts facts;
  facts.seed = seed;
  facts.entropy_nats_per_character = story_entropy_nats_per_character();
  double nats = 0;
  TextWriter file(path);
  while (stories > 0 ? facts.stories < stories : facts.bytes < bytes) {
    const GrammarText story = make_story(seed, static_cast<std::uint64_t>(facts.stories));
    file.write(story.text);
    facts.crc32 = extend_crc32(facts.crc32, story.text.data(), story.text.size());
    facts.bytes += static_cast<Bytes>(story.text.size());
    ++facts.stories;
    nats -= story.log_probability;
    if (progress && facts.stories % 1024 == 0) {
      progress(stories > 0 ? static_cast<double>(facts.stories) / static_cast<double>(stories)
                           : static_cast<double>(facts.bytes) / static_cast<double>(bytes));
    }
  }
  facts.empirical_nats_per_character = nats / static_cast<double>(facts.bytes);
  file.finish();
  write_facts(path, facts);
  return facts;
}

std::optional<CorpusFacts> read_corpus_facts(const std::string& path) {
  if (!std::filesystem::is_regular_file(corpus_facts_path(path))) return std::nullopt;
  const auto json = nlohmann::json::parse(read_file(corpus_facts_path(path), "corpus facts"), nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFactsFormat) return std::nullopt;  // somebody else's file
  CorpusFacts facts;
  try {
    facts.seed = json.at("seed").get<std::uint64_t>();
    facts.stories = json.at("stories").get<Count>();
    facts.bytes = json.at("bytes").get<Bytes>();
    facts.crc32 = json.at("crc32").get<std::uint32_t>();
    facts.entropy_nats_per_character = json.at("entropy_nats_per_character").get<double>();
    facts.empirical_nats_per_character = json.at("empirical_nats_per_character").get<double>();
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::data, "{}: damaged ({}); write the corpus again, or delete this file to go without the entropy",
         corpus_facts_path(path), error.what());
  }
  std::error_code error;
  if (static_cast<Bytes>(std::filesystem::file_size(path, error)) != facts.bytes || error) return std::nullopt;
  return checksum_of_file(path) == facts.crc32 ? std::optional(facts) : std::nullopt;
}

}  // namespace cohort
