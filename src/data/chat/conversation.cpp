#include "data/chat/conversation.hpp"

#include <algorithm>
#include <initializer_list>

#include "base/error.hpp"
#include "base/strict_json.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr int kJsonDepth = 64;

std::string text_of(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ExitCode::data, "{} has no \"{}\"", where, key);
  if (!found->is_string()) fail(ExitCode::data, "the \"{}\" of {} is {}, not a text", key, where, found->type_name());
  return found->get<std::string>();
}

Role role_of(const std::string& name, const std::string& where) {
  const auto found = std::find(kRoles.begin(), kRoles.end(), name);
  if (found == kRoles.end()) fail(ExitCode::data, "the role of {} is '{}'; known roles: system, user, assistant", where, name);
  return static_cast<Role>(found - kRoles.begin());
}

bool counts(const Json& message, const std::string& where) {
  const auto weight = message.find("weight");
  if (weight == message.end() || weight->is_null()) return true;
  if (!weight->is_number() || (*weight != 0 && *weight != 1))
    fail(ExitCode::data, "the \"weight\" of {} is {}; it can be 0 or 1", where, weight->dump());
  return *weight == 1;
}

Turn turn_of(const Json& message, const std::string& where) {
  if (!message.is_object()) fail(ExitCode::data, "{} is {}, not an object with role and content", where, message.type_name());
  for (const char* key : {"tool_calls", "function_call"}) {
    if (message.contains(key) && !message[key].is_null())
      fail(ExitCode::data, "{} has \"{}\": conversations with tools are not supported; leave it out", where, key);
  }
  const Role role = role_of(text_of(message, "role", where), where);
  return {role, text_of(message, "content", where), counts(message, where)};
}

Conversation from_messages(const Json& messages) {
  if (!messages.is_array()) fail(ExitCode::data, "\"messages\" is {}, not a list", messages.type_name());
  if (messages.empty()) fail(ExitCode::data, "the conversation is empty: its \"messages\" has no message");
  Conversation turns;
  for (std::size_t i = 0; i < messages.size(); ++i) turns.push_back(turn_of(messages[i], fmt::format("message {}", i + 1)));
  return turns;
}

Conversation from_prompt(const Json& object) {
  const bool completion = object.contains("completion"), response = object.contains("response");
  if (completion && response) fail(ExitCode::data, "it has both \"completion\" and \"response\"; leave one out");
  if (!completion && !response) fail(ExitCode::data, "it has a \"prompt\", but neither \"completion\" nor \"response\"");
  Conversation turns;
  if (object.contains("system")) turns.push_back({Role::system, text_of(object, "system", "the conversation")});
  turns.push_back({Role::user, text_of(object, "prompt", "the conversation")});
  turns.push_back({Role::assistant, text_of(object, completion ? "completion" : "response", "the conversation")});
  return turns;
}

void check_answers(const Conversation& turns) {
  bool any = false;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].role != Role::assistant) continue;
    if (turns[i].content.empty()) fail(ExitCode::data, "message {}, the assistant's, is empty", i + 1);
    any = any || turns[i].counts;
  }
  if (!any) fail(ExitCode::data, "the conversation has no answer of the assistant to learn from; leave it out");
}

}  // namespace

Conversation conversation_in_json_line(std::string_view line) {
  const Json object = parse_strict_json(line, "the conversation", kJsonDepth, ExitCode::data);
  if (!object.is_object()) fail(ExitCode::data, "it is {}, not an object such as {{\"messages\": [...]}}", object.type_name());
  const bool messages = object.contains("messages");
  if (!messages && !object.contains("prompt")) {
    std::vector<std::string> members;
    for (const auto& [name, value] : object.items()) members.push_back(name);
    fail(ExitCode::data, "it has neither \"messages\" nor \"prompt\"{}", members.empty() ? "" : ", but " + first_few(members));
  }
  if (messages && object.contains("prompt")) fail(ExitCode::data, "it has both \"messages\" and \"prompt\"; leave one out");
  Conversation turns = messages ? from_messages(object["messages"]) : from_prompt(object);
  check_answers(turns);
  return turns;
}

}  // namespace cohort
