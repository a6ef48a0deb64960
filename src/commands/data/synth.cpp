// `cohort data synth`: a synthetic corpus. One process, no MPI.
#include "data/synth_stories.hpp"

#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/work_progress.hpp"
#include "commands/data/data.hpp"
#include "data/synth_conversations.hpp"

namespace cohort {
namespace {

struct SynthOptions {
  std::string out;
  std::optional<std::string> bytes;
  Count stories = 0;
  bool by_stories = false;  // --stories was given, with whatever value
  std::uint64_t seed = 1;
  bool overwrite = false;
};

int run_synth(const SynthOptions& options) {
  if (options.bytes && options.by_stories)
    fail(ExitCode::usage, "--bytes and --stories both set the size of the corpus; give only one");
  const Bytes bytes = options.bytes ? parse_bytes(*options.bytes) : options.by_stories ? 0 : 2 * kMiB;
  if (options.by_stories && options.stories < 1) fail(ExitCode::usage, "--stories is {}; it must be at least 1", options.stories);
  if (options.bytes && bytes < 1) fail(ExitCode::usage, "--bytes is {}; it must be at least 1", *options.bytes);
  const std::string out = output_file("--out", options.out, options.overwrite).string();
  output_file("--out", corpus_facts_path(out), options.overwrite);
  WorkProgress progress("writing stories");
  const CorpusFacts facts =
      write_story_corpus(out, options.seed, options.stories, bytes, [&](double share) { progress.show(share); });
  fmt::print("{}: {}, {} ({} bytes), seed {}\n", options.out, counted(facts.stories, "story", "stories"),
             human_bytes(facts.bytes), facts.bytes, facts.seed);
  fmt::print("entropy: {:.5f} nats per character, exact: no model has a lower mean loss per character on new stories\n",
             facts.entropy_nats_per_character);
  fmt::print("this text: {:.5f} nats per character under its own grammar\n", facts.empirical_nats_per_character);
  fmt::print("next: cohort data prepare --input {} --out FILE.h5 --tokenizer bpe --vocabulary 1024\n", options.out);
  return 0;
}

struct ConversationOptions {
  std::string out;
  Count conversations = 4000;
  std::uint64_t seed = 1;
  bool overwrite = false;
};

int run_conversations(const ConversationOptions& options) {
  const std::string out = output_file("--out", options.out, options.overwrite).string();
  write_story_conversations(out, options.seed, options.conversations);
  fmt::print("{}: {}, seed {}\n", options.out, counted(options.conversations, "conversation"), options.seed);
  fmt::print("next: cohort data prepare --input {} --out FILE.h5 --tokenizer TOKENIZER --conversations plain\n", options.out);
  return 0;
}

void add_conversations(CLI::App& synth, Action& action) {
  auto* command = synth.add_subcommand("conversations", "Questions about small stories, with their answers, as lines of JSON");
  const auto options = std::make_shared<ConversationOptions>();
  command->add_option("--out", options->out, "File to write (.jsonl)")->type_name("FILE")->required();
  command->add_option("--conversations", options->conversations, "Size in conversations")
      ->check(integer_from(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Other seeds give other conversations")->capture_default_str();
  add_overwrite_option(*command, options->overwrite, "the conversations");
  command->callback([&action, options] { action = [options] { return run_conversations(*options); }; });
}

}  // namespace

void add_data_synth(CLI::App& data, Action& action) {
  auto* synth = data.add_subcommand("synth", "Write a synthetic corpus");
  synth->require_subcommand(1);
  auto* stories = synth->add_subcommand("stories", "Simple English stories whose entropy is known exactly");
  const auto options = std::make_shared<SynthOptions>();
  stories->add_option("--out", options->out, "Text file to write; FILE.json next to it holds its entropy")
      ->type_name("FILE")
      ->required();
  stories->add_option("--bytes", options->bytes, "Size, such as 500KiB; the last story is completed [2MiB]");
  const CLI::Option* number = stories->add_option("--stories", options->stories, "Size in stories");
  stories->add_option("--seed", options->seed, "Other seeds give other stories")->capture_default_str();
  add_overwrite_option(*stories, options->overwrite, "the corpus");
  add_conversations(*synth, action);
  stories->callback([&action, options, number] {
    options->by_stories = number->count() > 0;
    action = [options] { return run_synth(*options); };
  });
}

}  // namespace cohort
