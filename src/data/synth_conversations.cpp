#include "data/synth_conversations.hpp"

#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "data/story_grammar.hpp"
#include "data/story_rules.hpp"

namespace cohort {
namespace {

constexpr char kNextTurn = '|';

// Of a question that comes first, the story has mentioned everything by its first form.
constexpr std::string_view kConversationRules = R"(
rule text
  1 {hero} met {friend} {place.in}. {hero} had {thing}, and {friend} had {food}. <question>
  1 {hero} met {friend} {place.in}. {hero} had {thing}, and {friend} had {food}. <question>|<second>
rule question
  1 Who had {thing.the}?|{hero}.
  1 Who had {food.the}?|{friend}.
  1 Where did they meet?|They met {place.in}.
  1 What did {hero} have?|{hero.He} had {thing}.
  1 What did {friend} have?|{friend.He} had {food}.
rule second
  1 Whom did {hero} meet?|{hero} met {friend}.
  1 And who had {food.the}?|{friend}.
  1 And who had {thing.the}?|{hero}.
)";

const StoryGrammar& conversation_grammar() {
  static const StoryGrammar kGrammar(std::string(kStoryCharacters) + std::string(kConversationRules));
  return kGrammar;
}

}  // namespace

Conversation make_story_conversation(std::uint64_t seed, std::uint64_t index) {
  constexpr std::uint64_t kStream = 0x63686174;  // "chat": no story has a number as large as (kStream << 32)
  const CounterRandom random(seed, RandomPurpose::synth, static_cast<std::uint32_t>(index),
                             static_cast<std::uint32_t>(kStream + (index >> 32)));
  const GrammarText text = conversation_grammar().generate([&](std::uint64_t i) { return random.uniform(i); });
  Conversation conversation;
  for (std::string& turn : split(text.text, kNextTurn))
    conversation.push_back({conversation.size() % 2 == 0 ? Role::user : Role::assistant, std::move(turn)});
  return conversation;
}

void write_story_conversations(const std::string& path, std::uint64_t seed, Count count) {
  std::string lines;
  for (Count i = 0; i < count; ++i) {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    for (const Turn& turn : make_story_conversation(seed, static_cast<std::uint64_t>(i)))
      messages.push_back({{"role", name_of(turn.role)}, {"content", turn.content}});
    lines += nlohmann::ordered_json{{"messages", messages}}.dump() + "\n";
  }
  write_file_atomically(path, lines);
}

}  // namespace cohort
