// The grammar of `cohort data synth stories`, in the notation of story_grammar.hpp: who and what occurs, and how it is told.
#pragma once

#include <string_view>

namespace cohort {

extern const std::string_view kStoryCharacters;
extern const std::string_view kStoryRules;

}  // namespace cohort
