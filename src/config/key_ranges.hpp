// What the tables of keys (schema.cpp, model_keys.cpp) are written with: common ranges, and a macro for a line.
#pragma once

#include <cstdint>

#include "config/key_spec.hpp"

namespace cohort {

// Ends of ranges. They are wide; they exist so that products of sizes cannot overflow 64 bits, so that steps fit the 32 bits that
// the random generator keeps for them, and so that no epsilon becomes zero in fp32.
inline constexpr Count kMaxRanks = 1 << 15;
inline constexpr Count kMaxSteps = 2147483647;
inline constexpr Count kMaxSamples = 2147483647;
inline constexpr NumberRange kPositive{0.0, 1e6, true};
inline constexpr NumberRange kNotNegative{0.0, 1e6};
inline constexpr NumberRange kBelowOne{0.0, 1.0, false, true};
inline constexpr NumberRange kEpsilon{1e-30, 1.0};
inline constexpr std::monostate kAny{};

}  // namespace cohort

// The name of a key is the name of its member: the macro makes both from one word, so that they cannot differ.
#define KEY(section, name, ...)                                                                    \
  KeySpec {                                                                                        \
#section, #name, [](RunConfig & config) -> Field { return &config.section.name; }, __VA_ARGS__ \
  }
