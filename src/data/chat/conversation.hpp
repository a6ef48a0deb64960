// A conversation as one line of JSON, in the two forms that data sets of fine-tuning have:
//   {"messages": [{"role": "system", "content": "..."}, {"role": "user", ...}, {"role": "assistant", ...}, ...]}
//   {"prompt": "...", "completion": "..."}, or "response" for "completion", and perhaps "system": "..."
// A message may have a "weight", as in OpenAI's files: an assistant's message of weight 0 is part of the text and does not count
// as a target. Other members are left out, but for those that would change the text ("tool_calls").
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

enum class Role { system, user, assistant };
inline constexpr std::array<std::string_view, 3> kRoles{"system", "user", "assistant"};
inline std::string_view name_of(Role role) { return kRoles[static_cast<std::size_t>(role)]; }

struct Turn {
  Role role = Role::user;
  std::string content;
  bool counts = true;  // of an assistant's
};

using Conversation = std::vector<Turn>;

/// Throws Error(data), to be completed with file and line: not JSON, none of the two forms, no messages, an unknown role, a
/// content that is no text, an answer that is empty, no answer that counts.
Conversation conversation_in_json_line(std::string_view line);

}  // namespace cohort
