// EXPECT_ERROR(statement, code, "part", "another part"): the statement throws cohort::Error with this exit code, and the message
// contains every part.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>

#include "base/error.hpp"

namespace cohort::test {

inline void expect_error(const std::function<void()>& work, ExitCode code, std::initializer_list<const char*> parts) {
  try {
    work();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}

}  // namespace cohort::test

#define EXPECT_ERROR(statement, code, ...)                                 \
  do {                                                                     \
    SCOPED_TRACE(#statement);                                              \
    ::cohort::test::expect_error([&] { statement; }, code, {__VA_ARGS__}); \
  } while (false)
