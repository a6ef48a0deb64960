// How a conversation becomes text: what stands before it, before and behind each turn. A template is a row of a table; there is
// no template language. A model learns one and has to be asked in the same, so token files and checkpoints record its name.
//
// Each turn is  before_turn content end_of_turn after_turn.  Of the assistant's turns content and end_of_turn count as targets,
// so that the model learns what to say and when it is done; everything else is given. Contents stay as they are, white space
// included, and are encoded on their own: a content that spells a special token is text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/conversation.hpp"
#include "data/tokenizer.hpp"

namespace cohort {

struct ChatTemplate {
  std::string name;
  std::string help;                  // for people, in a few words
  std::string begin;                 // of a conversation
  std::string before_turn;           // "{role}" stands for the role's name
  std::string end_of_turn;           // a special token if there is one, which is never in a content
  std::string after_turn;            // between turns
  std::vector<std::string> roles;    // of system, user, assistant
  std::vector<std::string> special;  // the special tokens among these texts
};

/// The plain one first.
const std::vector<ChatTemplate>& all_chat_templates();
/// Throws Error(usage) with the names that there are, beginning with `where`.
const ChatTemplate& chat_template_named(const std::string& name, std::string_view where);
/// Special tokens of the template that are not in the list.
std::vector<std::string> missing_special(const ChatTemplate& chat, const std::vector<std::string>& special);

/// The texts of a conversation, in order: a special token, or text to encode on its own.
using ChatVisit = std::function<void(std::string_view text, bool special, bool counts)>;
void for_each_text(const ChatTemplate& chat, const Conversation& conversation, const ChatVisit& visit);

/// Tokens, and whether each counts as a target.
struct ChatTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> counted;
};

/// A template with the ids that a tokenizer gives it. Both must outlive it.
class ChatFormat {
 public:
  /// Throws Error(usage) that names the special tokens which the tokenizer does not have, and what to do.
  ChatFormat(const ChatTemplate& chat, const Tokenizer& tokenizer);

  const ChatTemplate& chat() const { return chat_; }
  /// Throws Error(data): a content that the tokenizer cannot take.
  ChatTokens encode(const Conversation& conversation) const;
  /// What stands before all turns; one turn; what stands before the assistant's next content.
  std::vector<std::int32_t> begin() const;
  std::vector<std::int32_t> encode_turn(const Turn& turn) const;
  std::vector<std::int32_t> begin_answer() const;
  /// The token that ends a turn; nothing if a text does.
  std::optional<std::int32_t> end_token() const;

 private:
  void require_end_of_turn() const;
  void add(std::string_view text, bool special, bool counts, ChatTokens& tokens) const;
  void add_marked(std::string_view text, ChatTokens& tokens) const;

  const ChatTemplate& chat_;
  const Tokenizer& tokenizer_;
};

}  // namespace cohort
