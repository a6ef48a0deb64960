// Conversations: read from JSON, written by templates, with the targets that count, into token files and batches.
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.hpp"
#include "base/text.hpp"
#include "data/batch.hpp"
#include "data/chat/chat_template.hpp"
#include "data/prepare.hpp"
#include "data/token_statistics.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;

constexpr const char* kTwoTurns =
    R"({"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"},)"
    R"( {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "See you"}]})";

TEST(Conversation, IsReadInBothForms) {
  const Conversation messages = conversation_in_json_line(kTwoTurns);
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].role, Role::system);
  EXPECT_EQ(messages[4].content, "See you");
  for (const char* line : {R"({"prompt": "Hi", "completion": "Hello"})", R"({"response": "Hello", "id": 7, "prompt": "Hi"})"}) {
    const Conversation turns = conversation_in_json_line(line);
    ASSERT_EQ(turns.size(), 2u);
    EXPECT_EQ(turns[0].role, Role::user);
    EXPECT_EQ(turns[0].content, "Hi");
    EXPECT_EQ(turns[1].role, Role::assistant);
    EXPECT_EQ(turns[1].content, "Hello");
  }
}

TEST(Conversation, WhatIsNoneIsRefused) {
  const auto refuses = [](const char* line, const char* part) {
    EXPECT_ERROR(conversation_in_json_line(line), ExitCode::data, part);
  };
  refuses(R"({"messages": [)", "the conversation");
  refuses(R"([1])", "it is array, not an object");
  refuses(R"({"text": "a"})", "neither \"messages\" nor \"prompt\", but text");
  refuses(R"({"messages": []})", "the conversation is empty");
  refuses(R"({"messages": "a"})", "\"messages\" is string, not a list");
  refuses(R"({"messages": [3]})", "message 1 is number");
  refuses(R"({"messages": [{"role": "user"}]})", "message 1 has no \"content\"");
  refuses(R"({"messages": [{"content": "a"}]})", "message 1 has no \"role\"");
  refuses(R"({"messages": [{"role": "user", "content": "a"}, {"role": "human", "content": "a"}]})",
          "the role of message 2 is 'human'; known roles: system, user, assistant");
  refuses(R"({"messages": [{"role": "user", "content": null}]})", "the \"content\" of message 1 is null, not a text");
  refuses(R"({"messages": [{"role": "user", "content": "a"}]})", "no answer of the assistant");
  refuses(R"({"messages": [{"role": "assistant", "content": ""}]})", "message 1, the assistant's, is empty");
  refuses(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}]})", "no answer of the assistant");
  refuses(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})", "0 or 1");
  refuses(R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": [1]}]})", "tools are not supported");
  refuses(R"({"prompt": "a"})", "neither \"completion\" nor \"response\"");
  refuses(R"({"prompt": "a", "completion": "b", "response": "c"})", "both");
  refuses(R"({"prompt": "a", "completion": 3})", "the \"completion\" of the conversation is number");
}

// The text of the tokens, with what counts in brackets.
std::string marked(const ChatTokens& tokens, const Tokenizer& tokenizer) {
  std::string text;
  bool open = false;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if ((tokens.counted[i] != 0) != open) text += open ? ']' : '[';
    open = tokens.counted[i] != 0;
    text += tokenizer.text_of(tokens.ids[i]);
  }
  return text + (open ? "]" : "");
}

std::unique_ptr<Tokenizer> bpe_with(const std::vector<std::string>& special) {
  const std::string_view text = "some words to learn from, some more words";
  const std::string source = "text";
  return learn_tokenizer("bpe", {&text, 1}, {&source, 1}, {.vocabulary = 280, .pattern = "", .special = special});
}

TEST(ChatTemplate, OnlyAnswersAndTheirEndsCount) {
  const auto byte = learn_tokenizer("byte", {}, {});
  const Conversation turns = conversation_in_json_line(kTwoTurns);
  EXPECT_EQ(marked(ChatFormat(chat_template_named("plain", "test"), *byte).encode(turns), *byte),
            "System: Be short.\n###\nUser: Hi\n###\nAssistant: [Hello\n###\n]User: Bye\n###\nAssistant: [See you\n###\n]");
  const ChatTemplate& chatml = chat_template_named("chatml", "test");
  const auto with_special = bpe_with(chatml.special);
  const ChatFormat format(chatml, *with_special);
  EXPECT_EQ(marked(format.encode(turns), *with_special),
            "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Hello<|im_end|>]\n"
            "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n[See you<|im_end|>]\n");
  EXPECT_EQ(format.end_token(), special_token(*with_special, "<|im_end|>", "test"));
  const ChatTemplate& llama = chat_template_named("llama3", "test");
  const auto with_llama = bpe_with(llama.special);
  EXPECT_EQ(marked(ChatFormat(llama, *with_llama).encode({{Role::user, "Hi"}, {Role::assistant, "Yo"}}), *with_llama),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n[Yo<|eot_id|>]");
  // An answer of weight 0 is there and does not count.
  EXPECT_EQ(marked(format.encode({{Role::assistant, "Yo", false}}), *with_special), "<|im_start|>assistant\nYo<|im_end|>\n");
}

TEST(ChatTemplate, WhatSpellsASpecialTokenIsText) {
  const ChatTemplate& chatml = chat_template_named("chatml", "test");
  const auto tokenizer = bpe_with(chatml.special);
  const ChatTokens tokens = ChatFormat(chatml, *tokenizer).encode({{Role::user, "<|im_end|>"}, {Role::assistant, "a"}});
  const std::int32_t end = special_token(*tokenizer, "<|im_end|>", "test");
  EXPECT_EQ(std::count(tokens.ids.begin(), tokens.ids.end(), end), 2);
}

TEST(ChatTemplate, PartsAreWhatTheWholeIs) {
  for (const ChatTemplate& chat : all_chat_templates()) {
    const auto tokenizer = bpe_with(chat.special);
    const ChatFormat format(chat, *tokenizer);
    const Turn question{Role::user, "some words"}, answer{Role::assistant, "more"};
    std::vector<std::int32_t> parts = format.begin();
    const auto add = [&](const std::vector<std::int32_t>& more) { parts.insert(parts.end(), more.begin(), more.end()); };
    add(format.encode_turn(question));
    const std::size_t asked = parts.size();
    add(format.encode_turn(answer));
    const ChatTokens whole = format.encode({question, answer});
    EXPECT_EQ(parts, whole.ids) << chat.name;
    const std::vector<std::int32_t> begin = format.begin_answer();
    ASSERT_LE(asked + begin.size(), whole.ids.size());
    EXPECT_TRUE(std::equal(begin.begin(), begin.end(), whole.ids.begin() + static_cast<std::ptrdiff_t>(asked))) << chat.name;
    EXPECT_EQ(whole.counted[asked + begin.size()], 1) << chat.name;
    EXPECT_EQ(whole.counted[asked + begin.size() - 1], 0) << chat.name;
  }
}

TEST(ChatTemplate, MissingSpecialTokensAreNamed) {
  const auto tokenizer = bpe_with({"<|im_start|>"});
  EXPECT_ERROR(ChatFormat(chat_template_named("chatml", "test"), *tokenizer), ExitCode::usage, "chatml", "<|im_end|>", "plain");
  EXPECT_ERROR(chat_template_named("alpaca", "--conversations"), ExitCode::usage, "--conversations", "alpaca", "plain, chatml");
}

PrepareOptions options_for(const TemporaryFolder& folder, const std::string& lines) {
  write_file_atomically(folder / "c.jsonl", lines);
  PrepareOptions options{{folder / "c.jsonl"}, folder / "c.h5", "byte", 0.5};
  options.conversations = "plain";
  return options;
}

std::string line_of(const std::string& question, const std::string& answer) {
  return fmt::format("{{\"prompt\": \"{}\", \"completion\": \"{}\"}}\n", question, answer);
}

TEST(Conversations, AreATokenFileWithAMask) {
  const TemporaryFolder folder;
  const PrepareOptions options = options_for(folder, line_of("ab", "cd") + "\n" + line_of("ef", "gh"));
  const Prepared prepared = prepare_tokens(options);
  EXPECT_EQ(prepared.documents, 2);
  EXPECT_EQ(prepared.counted, 2 * (2 + 5));
  const TokenFile file(folder / "c.h5");
  file.verify();
  EXPECT_EQ(file.version(), 3);
  EXPECT_EQ(file.chat_template(), "plain");
  std::string text;
  for (const Split split : {Split::train, Split::validation}) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens(split)));
    std::vector<std::uint8_t> counted(ids.size());
    file.read(split, 0, ids);
    file.read_counted(split, 0, counted);
    text += marked({ids, counted}, file.tokenizer());
  }
  EXPECT_EQ(text, "User: ab\n###\nAssistant: [cd\n###\n]User: ef\n###\nAssistant: [gh\n###\n]");
  EXPECT_EQ(statistics_of(file).counted, (std::array<Count, 2>{7, 7}));
}

// One conversation, written in other ways: spaces, the order of keys, escapes, members that are left out, the other form. What
// differs in a text, a role, the place where a turn ends, or in what counts is another one.
TEST(Conversations, DuplicatesHaveTheSameTurns) {
  const TemporaryFolder folder;
  const std::string first = R"({"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "é"}]})";
  const std::vector<std::string> same{
      R"({"messages":[{"role":"user","content":"a\nb"},{"role":"assistant","content":"é"}]})",
      R"({"id": 7, "messages": [{"content": "a\nb", "role": "user"}, {"content": "\u00e9", "weight": 1, "role": "assistant"}]})",
      R"({"messages": [{"role": "user", "content": "\u0061\u000ab", "weight": 0}, {"role": "assistant", "content": "é"}]})",
      R"({"completion": "é", "prompt": "a\nb"})"};
  const std::vector<std::string> other{
      R"({"messages": [{"role": "system", "content": "a\nb"}, {"role": "assistant", "content": "é"}]})",
      R"({"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "É"}]})",
      R"({"messages": [{"role": "user", "content": "a\nb "}, {"role": "assistant", "content": "é"}]})",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "\nb"}, {"role": "assistant", "content": "é"}]})",
      R"({"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "é"}, {"role": "assistant", "content": "x"}]})",
      R"({"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "é", "weight": 0}, {"role": "assistant", "content": "x"}]})"};
  std::string lines = first + "\n";
  for (const auto& more : {same, other}) lines += join(more, "\n") + "\n";
  PrepareOptions options = options_for(folder, lines);
  options.deduplicate = true;
  const Prepared prepared = prepare_tokens(options);
  EXPECT_EQ(prepared.duplicates, static_cast<Count>(same.size()));
  EXPECT_EQ(prepared.documents, static_cast<Count>(1 + other.size()));
}

TEST(Conversations, BatchesIgnoreTheOtherTargets) {
  const TemporaryFolder folder;
  prepare_tokens(options_for(folder, line_of("ab", "cd") + line_of("ef", "gh")));
  const auto file = std::make_shared<const TokenFile>(folder / "c.h5");
  const TokenDataset dataset(file, 4);
  Batch batch;
  Count counted = 0;
  for (Count id = 0; id < dataset.samples(Split::train); ++id) {
    dataset.fill(Split::train, {&id, 1}, batch);
    std::array<std::int32_t, 4> next{};
    std::array<std::uint8_t, 4> counts{};
    file->read(Split::train, id * 4 + 1, next);
    file->read_counted(Split::train, id * 4 + 1, counts);
    for (std::size_t t = 0; t < 4; ++t) {
      EXPECT_EQ(batch.targets[t], counts[t] != 0 ? next[t] : -1) << id << " " << t;
      counted += counts[t];
    }
    if (id == 0) {
      EXPECT_EQ(batch.valid_targets(), 0);
    }
  }
  EXPECT_GT(counted, 4);
}

// What is wrong with a line is said with file and line, whatever the tokenizer.
TEST(Conversations, BrokenLinesAreNamed) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& line, const char* part) {
    for (const char* tokenizer : {"byte", "char"}) {
      PrepareOptions options = options_for(folder, line_of("ab", "cd") + "\n" + line + "\n");
      options.tokenizer = tokenizer;
      EXPECT_ERROR(prepare_tokens(options), ExitCode::data, "c.jsonl: line 3", part);
      EXPECT_FALSE(std::filesystem::exists(folder / "c.h5"));
    }
  };
  refuses("{\"prompt\": \"a\"", "the conversation");
  refuses("{\"messages\": []}", "the conversation is empty");
  refuses("{\"text\": \"a\"}", "neither");
}

TEST(Conversations, OptionsThatCannotBeAreRefused) {
  const TemporaryFolder folder;
  PrepareOptions options = options_for(folder, line_of("ab", "cd"));
  options.conversations = "chatml";
  EXPECT_ERROR(check_prepare_options(options), ExitCode::usage, "--special-token '<|im_start|>' --special-token '<|im_end|>'",
               "plain");
  options.conversations = "none";
  EXPECT_ERROR(check_prepare_options(options), ExitCode::usage, "'none'", "plain, chatml, llama3");
  write_file_atomically(folder / "t.txt", "a text");
  options = options_for(folder, line_of("ab", "cd"));
  options.inputs.push_back(folder / "t.txt");
  EXPECT_ERROR(Preparation::find_inputs(options), ExitCode::usage, "t.txt", ".jsonl");
}

// Any byte of the mask, or of its checksums, that is changed is found when it is read.
TEST(Conversations, AChangedMaskIsFound) {
  const TemporaryFolder folder;
  prepare_tokens(options_for(folder, line_of("ab", "cd") + line_of("ef", "gh")));
  Bytes offset = 0;
  {
    const hdf5::File file = hdf5::File::open(folder / "c.h5", ExitCode::data);
    offset = *file.open_dataset("counted/train").offset();
  }
  std::fstream stream(folder / "c.h5", std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(offset);
  stream.put('\1');
  stream.close();
  const TokenFile file(folder / "c.h5");
  EXPECT_ERROR(file.verify(), ExitCode::data, "/counted/train", "checksum mismatch");
  std::array<std::uint8_t, 4> counted{};
  EXPECT_ERROR(file.read_counted(Split::train, 8, counted), ExitCode::data, "/counted/train", "checksum mismatch");
  EXPECT_ERROR(file.verify_within(1 << 20), ExitCode::data, "/counted/train");
}

// Other files are as they were: older programs read them.
TEST(Conversations, FilesOfTextHaveNoMask) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "t.txt", "a text of some length");
  prepare_tokens({{folder / "t.txt"}, folder / "t.h5", "byte", 0.5});
  const TokenFile file(folder / "t.h5");
  EXPECT_EQ(file.version(), 2);
  EXPECT_EQ(file.chat_template(), "");
  const hdf5::File raw = hdf5::File::open(folder / "t.h5", ExitCode::data);
  EXPECT_FALSE(raw.has_dataset("counted/train"));
  EXPECT_FALSE(raw.has_attribute("chat_template"));
}

}  // namespace
}  // namespace cohort
