#include "data/chat/chat_template.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

constexpr std::string_view kRolePlace = "{role}";

std::string with_role(const ChatTemplate& chat, Role role) {
  std::string text = chat.before_turn;
  const std::size_t place = text.find(kRolePlace);
  if (place != std::string::npos) text.replace(place, kRolePlace.size(), chat.roles[static_cast<std::size_t>(role)]);
  return text;
}

// Cuts a text of the template at its special tokens, none of which is the beginning of another.
void for_each_part(const ChatTemplate& chat, std::string_view text, bool counts, const ChatVisit& visit) {
  std::size_t plain = 0;
  const auto visit_plain = [&](std::size_t end) {
    if (end > plain) visit(text.substr(plain, end - plain), false, counts);
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto found = std::find_if(chat.special.begin(), chat.special.end(),
                                    [&](const std::string& token) { return text.substr(at).starts_with(token); });
    if (found == chat.special.end()) {
      ++at;
      continue;
    }
    visit_plain(at);
    visit(*found, true, counts);
    plain = at += found->size();
  }
  visit_plain(text.size());
}

void for_each_text_of(const ChatTemplate& chat, const Turn& turn, const ChatVisit& visit) {
  const bool counts = turn.role == Role::assistant && turn.counts;
  for_each_part(chat, with_role(chat, turn.role), false, visit);
  if (!turn.content.empty()) visit(turn.content, false, counts);
  for_each_part(chat, chat.end_of_turn, counts, visit);
  for_each_part(chat, chat.after_turn, false, visit);
}

std::vector<ChatTemplate> make_chat_templates() {
  return {{.name = "plain",
           .help = "\"User: ...\", \"Assistant: ...\" and a line ### behind each turn; for every tokenizer",
           .begin = "",
           .before_turn = "{role}: ",
           .end_of_turn = "\n###\n",
           .after_turn = "",
           .roles = {"System", "User", "Assistant"},
           .special = {}},
          {.name = "chatml",
           .help = "Qwen's and others', with the special tokens <|im_start|> and <|im_end|>",
           .begin = "",
           .before_turn = "<|im_start|>{role}\n",
           .end_of_turn = "<|im_end|>",
           .after_turn = "\n",
           .roles = {"system", "user", "assistant"},
           .special = {"<|im_start|>", "<|im_end|>"}},
          {.name = "llama3",
           .help = "Llama 3's, with <|begin_of_text|>, <|start_header_id|>, <|end_header_id|> and <|eot_id|>",
           .begin = "<|begin_of_text|>",
           .before_turn = "<|start_header_id|>{role}<|end_header_id|>\n\n",
           .end_of_turn = "<|eot_id|>",
           .after_turn = "",
           .roles = {"system", "user", "assistant"},
           .special = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}}};
}

}  // namespace

const std::vector<ChatTemplate>& all_chat_templates() {
  static const std::vector<ChatTemplate> kAll = make_chat_templates();
  return kAll;
}

const ChatTemplate& chat_template_named(const std::string& name, std::string_view where) {
  std::vector<std::string> names;
  for (const ChatTemplate& chat : all_chat_templates()) {
    if (chat.name == name) return chat;
    names.push_back(chat.name);
  }
  fail(ExitCode::usage, "{}: no chat template is called '{}'; available: {}", where, name, join(names));
}

std::vector<std::string> missing_special(const ChatTemplate& chat, const std::vector<std::string>& special) {
  std::vector<std::string> missing;
  for (const std::string& token : chat.special) {
    if (std::find(special.begin(), special.end(), token) == special.end()) missing.push_back(token);
  }
  return missing;
}

void for_each_text(const ChatTemplate& chat, const Conversation& conversation, const ChatVisit& visit) {
  for_each_part(chat, chat.begin, false, visit);
  for (const Turn& turn : conversation) for_each_text_of(chat, turn, visit);
}

ChatFormat::ChatFormat(const ChatTemplate& chat, const Tokenizer& tokenizer) : chat_(chat), tokenizer_(tokenizer) {
  std::vector<std::string> known;
  for (const SpecialToken& token : tokenizer.special_tokens()) known.push_back(token.text);
  const std::vector<std::string> missing = missing_special(chat, known);
  if (missing.empty()) {
    require_end_of_turn();
    return;
  }
  fail(ExitCode::usage,
       "the chat template {} needs the special token{} {}, which the {} tokenizer does not have: use the template plain, which "
       "needs none, or a tokenizer that has them",
       chat.name, missing.size() == 1 ? "" : "s", join(missing), tokenizer.kind());
}

// A tokenizer may change texts (SentencePiece normalises), and then nobody would ever see that a turn ends.
void ChatFormat::require_end_of_turn() const {
  if (end_token()) return;
  ChatTokens tokens;
  add(chat_.end_of_turn, false, false, tokens);
  if (tokenizer_.decode(tokens.ids) == chat_.end_of_turn) return;
  fail(ExitCode::usage,
       "the chat template {} ends turns by a text that the {} tokenizer does not keep: use a template with special tokens, or "
       "another tokenizer",
       chat_.name, tokenizer_.kind());
}

void ChatFormat::add(std::string_view text, bool special, bool counts, ChatTokens& tokens) const {
  if (special) {
    tokens.ids.push_back(special_token(tokenizer_, std::string(text), "the chat template"));
  } else {
    TextSource source("its text");
    source.starts = false;  // a tokenizer that puts a space before documents must not put one before each part
    const std::vector<std::int32_t> ids = tokenizer_.encode(text, source);
    tokens.ids.insert(tokens.ids.end(), ids.begin(), ids.end());
  }
  tokens.counted.resize(tokens.ids.size(), counts ? 1 : 0);
}

void ChatFormat::add_marked(std::string_view text, ChatTokens& tokens) const {
  for_each_part(chat_, text, false,
                [&](std::string_view part, bool special, bool counts) { add(part, special, counts, tokens); });
}

ChatTokens ChatFormat::encode(const Conversation& conversation) const {
  ChatTokens tokens;
  for_each_text(chat_, conversation,
                [&](std::string_view text, bool special, bool counts) { add(text, special, counts, tokens); });
  return tokens;
}

std::vector<std::int32_t> ChatFormat::begin() const {
  ChatTokens tokens;
  add_marked(chat_.begin, tokens);
  return tokens.ids;
}

std::vector<std::int32_t> ChatFormat::encode_turn(const Turn& turn) const {
  ChatTokens tokens;
  for_each_text_of(chat_, turn, [&](std::string_view text, bool special, bool counts) { add(text, special, counts, tokens); });
  return tokens.ids;
}

std::vector<std::int32_t> ChatFormat::begin_answer() const {
  ChatTokens tokens;
  add_marked(with_role(chat_, Role::assistant), tokens);
  return tokens.ids;
}

std::optional<std::int32_t> ChatFormat::end_token() const {
  if (std::find(chat_.special.begin(), chat_.special.end(), chat_.end_of_turn) == chat_.special.end()) return std::nullopt;
  return special_token(tokenizer_, chat_.end_of_turn, "the chat template");
}

}  // namespace cohort
