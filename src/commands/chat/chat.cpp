// `cohort chat`: a conversation with a model that was fine-tuned on conversations.
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

#include "base/console.hpp"
#include "base/error.hpp"
#include "checkpoint/load/collective.hpp"
#include "comm/consensus.hpp"
#include "commands/chat/dialogue.hpp"
#include "commands/commands.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/override_options.hpp"
#include "commands/common/step_option.hpp"
#include "commands/generate/text_model.hpp"
#include "ops/gemm.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/runtime.hpp"
#include "train/data_record.hpp"
#include "train/data_setup.hpp"
#include "train/generate.hpp"
#include "train/model_on_mesh.hpp"
#include "train/precision.hpp"
#include "train/text_stream.hpp"

namespace cohort {
namespace {

struct ChatOptions {
  std::string checkpoint;
  std::optional<Count> step;
  std::string system;
  std::string chat_template;
  std::string tokens_file;
  Count max_tokens = 256;
  Sampling sampling{.temperature = 0.7};
  std::uint64_t seed = 1;
  std::vector<std::string> overrides;
  std::string layout;
};

const ChatTemplate& template_of(const ChatOptions& options, const TrainingState& state) {
  const std::string name = options.chat_template.empty() ? chat_template_of_record(state.data) : options.chat_template;
  if (name.empty()) {
    fail(ExitCode::usage,
         "{} was not trained on conversations, so it has no chat template: fine-tune it on some (`cohort data prepare "
         "--conversations`, docs/finetuning.md), name the template of imported weights with --template, or continue texts with "
         "`cohort generate`",
         options.checkpoint);
  }
  return chat_template_named(name, "--template");
}

// A line of standard input, which rank 0 alone reads; nothing at its end. Collective over: world
std::optional<std::string> next_line(Communicator& world) {
  std::string line;  // behind a mark, so that the end differs from a blank line
  if (world.rank() == 0) {
    if (::isatty(STDIN_FILENO) != 0) print_to_console("> ");
    if (std::getline(std::cin, line)) {
      if (line.ends_with('\r')) line.pop_back();
      line.insert(0, 1, '+');
    } else {
      line.clear();
    }
  }
  line = broadcast_text(world, line, 0);
  if (line.empty()) return std::nullopt;
  return line.substr(1);
}

// One answer as it comes: up to the token or the text that ends it.
class Answer {
 public:
  Answer(const ChatFormat& format, const Tokenizer& tokenizer, bool prints)
      : end_(format.end_token()),
        stream_(tokenizer, end_ ? std::vector<std::string>{} : std::vector<std::string>{format.chat().end_of_turn}),
        prints_(prints) {}

  bool put(std::int32_t token) {
    if (token == end_) return false;
    print(stream_.put(token));
    return !stream_.stopped();
  }
  /// All of it.
  std::string finish() {
    print(stream_.finish());
    print("\n");
    return stream_.text();
  }

 private:
  void print(const std::string& text) const {
    if (prints_ && !text.empty()) print_to_console(text);
  }

  std::optional<std::int32_t> end_;
  TextStream stream_;
  bool prints_;
};

class Chat {
 public:
  Chat(const ChatOptions& options, Communicator& world, const RunConfig& config, const Tokenizer& tokenizer,
       const ChatTemplate& chat, Predictor& model)
      : options_(options), world_(world), tokenizer_(tokenizer), format_(chat, tokenizer), model_(model) {
    how_ = {.vocabulary = tokenizer.vocabulary_size(),
            .sampling = options.sampling,
            .context = config.model.context,
            .kernels = exec_of(config).kernels};
  }

  void run() {
    std::optional<Dialogue> begun;
    fail_together(world_, "beginning the conversation",
                  [&] { begun.emplace(format_, options_.system, how_.context, options_.max_tokens); });
    Dialogue& dialogue = *begun;
    while (const std::optional<std::string> line = next_line(world_)) {
      if (line->find_first_not_of(" \t") == std::string::npos) continue;
      std::vector<std::int32_t> prompt;
      try {
        prompt = dialogue.ask(*line);
      } catch (const Error& error) {  // on all ranks alike: the conversation goes on
        if (error.code() != ExitCode::data) throw;
        say(error.what());
        continue;
      }
      if (dialogue.dropped() > 0 && !told_) {
        say("note: the conversation is longer than the model's context; from now on its oldest turns are left out");
        told_ = true;
      }
      const std::string answer = answer_to(prompt);
      try {
        dialogue.answered(answer);
      } catch (const Error& error) {
        if (error.code() != ExitCode::data) throw;
        say(fmt::format("note: this question and answer are left out of the conversation from now on: {}", error.what()));
        dialogue.withdraw();
      }
    }
  }

 private:
  void say(const std::string& text) const {
    if (world_.rank() == 0) print_error_line(text);
  }

  std::string answer_to(const std::vector<std::int32_t>& prompt) {
    how_.tokens = std::min(options_.max_tokens, how_.context - static_cast<Count>(prompt.size()));
    how_.seed = options_.seed + static_cast<std::uint64_t>(answers_++);
    Answer answer(format_, tokenizer_, world_.rank() == 0);
    Hooks none;
    with_place_of_not_finite(world_, [&] {
      generate(model_, {&prompt, 1}, how_, none, [&](std::size_t, std::int32_t token) { return answer.put(token); });
    });
    return answer.finish();
  }

  const ChatOptions& options_;
  Communicator& world_;
  const Tokenizer& tokenizer_;
  ChatFormat format_;
  Predictor& model_;
  GenerateOptions how_;
  Count answers_ = 0;
  bool told_ = false;  // that turns are dropped
};

int run_chat(const ChatOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  const std::filesystem::path checkpoint = resolve_checkpoint_collectively(*world, options.checkpoint, options.step);
  const TrainingState state = read_training_state_collectively(*world, checkpoint);
  const ChatTemplate* chat = nullptr;
  fail_together(*world, "looking for the chat template", [&] { chat = &template_of(options, state); });
  std::vector<std::string> overrides = options.overrides;
  overrides.emplace_back("watch.timeout=0");  // people think before they write
  RunConfig config = run_for_text(runtime, *world, options.checkpoint, state, overrides, options.layout, options.tokens_file);
  const std::shared_ptr<const Tokenizer> tokenizer =
      tokenizer_of_model(*world, config, state, /*from_file=*/!options.tokens_file.empty());
  fail_together(*world, "reading the chat template", [&] { ChatFormat(*chat, *tokenizer); });
  set_up_job(runtime, *world, config);
  ops::set_gemm_threads(static_cast<int>(config.device.threads));
  ModelOnMesh model(config, *world);
  model.load(checkpoint);
  Chat(options, *world, config, *tokenizer, *chat, model.predictor()).run();
  return 0;
}

}  // namespace

void add_chat_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("chat", "Talk with a model that was fine-tuned on conversations");
  command->footer(
      "Reads a message a line from standard input and prints the answer to each, until the input ends. The model sees the\n"
      "conversation so far; when its context is full, the oldest turns are left out. docs/finetuning.md makes such a model.");
  const auto options = std::make_shared<ChatOptions>();
  command->add_option("checkpoint", options->checkpoint, "A checkpoint or a run folder")->required();
  add_step_option(*command, options->step);
  command->add_option("--system", options->system, "What the conversation begins with: instructions for the model");
  command->add_option("--max-tokens", options->max_tokens, "Tokens of an answer, at most")
      ->check(integer_from(1, 1'000'000))
      ->capture_default_str();
  add_sampling_options(*command, options->sampling);
  command->add_option("--seed", options->seed, "The same seed gives the same answers")->capture_default_str();
  command
      ->add_option("--template", options->chat_template,
                   "Chat template, where the checkpoint does not record that of its training")
      ->type_name("NAME");
  command->add_option("--tokens-file", options->tokens_file, "Use the tokenizer of this token file, for checkpoints without one")
      ->type_name("FILE");
  add_override_options(*command, options->overrides);
  command->add_option("--layout", options->layout, "Divide the model over the ranks: tp=N, pp=N or both, as tp=2,pp=2");
  command->callback([&action, options] { action = [options] { return run_chat(*options); }; });
}

}  // namespace cohort
