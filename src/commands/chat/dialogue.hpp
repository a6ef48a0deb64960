// A conversation as a model sees it: what stands in its context, of which the oldest turns go when it is full.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "data/chat/chat_template.hpp"

namespace cohort {

class Dialogue {
 public:
  /// `system`: "" = no such turn. Answers are to have room for `answer` tokens of the model's `context`, but a quarter of it is
  /// enough. Throws Error(data) for what the tokenizer cannot take; Error(usage) if the system's turn leaves no room.
  Dialogue(const ChatFormat& format, const std::string& system, Count context, Count answer);

  /// Adds the user's turn, and returns all that the model sees up to where its answer begins. Drops the oldest turns for that.
  /// Throws Error(data), and changes nothing, if there is no room even without them.
  std::vector<std::int32_t> ask(const std::string& text);
  /// Throws Error(data) for what the tokenizer cannot take, such as bytes of a model that are no UTF-8.
  void answered(const std::string& text);
  /// As if the last turn had not been asked.
  void withdraw();

  /// Turns that were dropped so far.
  Count dropped() const { return dropped_; }

 private:
  Count tokens() const;  // of all, with the beginning of an answer

  const ChatFormat& format_;
  std::vector<std::int32_t> head_;  // what stands before all turns, and the system's
  std::vector<std::int32_t> begin_answer_;
  std::deque<std::vector<std::int32_t>> turns_;  // of user and assistant, by turns
  Count room_;                                   // for all of this
  Count dropped_ = 0;
};

}  // namespace cohort
