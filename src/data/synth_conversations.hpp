// Conversations about small stories, for fine-tuning small models: each begins with a story of two people, and asks what it says.
// The answers follow from the story, so that a model's can be counted as right or wrong.
//
// Conversation i of a seed is a pure function of (seed, i): a text of a grammar of the kind that stories have
// (story_grammar.hpp), with their people, places and things.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.hpp"
#include "data/chat/conversation.hpp"

namespace cohort {

/// One or two questions with their answers; the first user's turn begins with the story.
Conversation make_story_conversation(std::uint64_t seed, std::uint64_t index);

/// Conversations 0 to `count` - 1 as lines of JSON. Throws Error(io).
void write_story_conversations(const std::string& path, std::uint64_t seed, Count count);

}  // namespace cohort
