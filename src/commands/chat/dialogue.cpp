#include "commands/chat/dialogue.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace cohort {

Dialogue::Dialogue(const ChatFormat& format, const std::string& system, Count context, Count answer)
    : format_(format),
      head_(format.begin()),
      begin_answer_(format.begin_answer()),
      room_(context - std::clamp<Count>(answer, 1, std::max<Count>(1, context / 4))) {
  if (!system.empty()) {
    const std::vector<std::int32_t> turn = format.encode_turn({Role::system, system});
    head_.insert(head_.end(), turn.begin(), turn.end());
  }
  if (tokens() < room_) return;
  if (system.empty()) fail(ExitCode::usage, "the model's context of {} tokens has no room for a conversation", context);
  fail(ExitCode::usage, "--system: its {} tokens leave no room for a conversation in the model's context of {}", head_.size(),
       context);
}

Count Dialogue::tokens() const {
  std::size_t sum = head_.size() + begin_answer_.size();
  for (const std::vector<std::int32_t>& turn : turns_) sum += turn.size();
  return static_cast<Count>(sum);
}

std::vector<std::int32_t> Dialogue::ask(const std::string& text) {
  std::vector<std::int32_t> asked = format_.encode_turn({Role::user, text});
  const auto alone = static_cast<Count>(head_.size() + begin_answer_.size() + asked.size());
  if (alone > room_)
    fail(ExitCode::data, "the message makes {} tokens, of which the model's context has room for {}: shorten it", alone, room_);
  turns_.push_back(std::move(asked));
  while (tokens() > room_ && turns_.size() > 1) {
    const std::size_t oldest = std::min<std::size_t>(2, turns_.size() - 1);  // a question and its answer
    turns_.erase(turns_.begin(), turns_.begin() + static_cast<std::ptrdiff_t>(oldest));
    dropped_ += static_cast<Count>(oldest);
  }
  std::vector<std::int32_t> prompt = head_;
  for (const std::vector<std::int32_t>& turn : turns_) prompt.insert(prompt.end(), turn.begin(), turn.end());
  prompt.insert(prompt.end(), begin_answer_.begin(), begin_answer_.end());
  return prompt;
}

void Dialogue::withdraw() { turns_.pop_back(); }

void Dialogue::answered(const std::string& text) { turns_.push_back(format_.encode_turn({Role::assistant, text})); }

}  // namespace cohort
