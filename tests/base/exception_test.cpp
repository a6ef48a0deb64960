// What exceptions of the standard library mean: an exit code that a script can go by, and the path.
#include "base/exception.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>

namespace cohort {
namespace {

namespace fs = std::filesystem;

Error meaning_of(void (*work)()) {
  try {
    work();
  } catch (const std::exception& error) {
    return as_error(error);
  }
  return {ExitCode::success, "no exception"};
}

TEST(Exception, OfTheFileSystemNamesThePathAndTheReason) {
  const Error error = meaning_of([] { static_cast<void>(fs::exists("/" + std::string(300, 'x'))); });
  EXPECT_EQ(error.code(), ExitCode::io);
  EXPECT_EQ(error.what(), "'/" + std::string(300, 'x') + "': File name too long");
  const Error two = meaning_of([] { fs::rename("/nowhere/a", "/nowhere/b"); });
  EXPECT_EQ(two.code(), ExitCode::io);
  EXPECT_STREQ(two.what(), "'/nowhere/a' and '/nowhere/b': No such file or directory");
}

TEST(Exception, OfMemory) {
  const Error error = meaning_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(error.code(), ExitCode::memory);
  EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos);
}

TEST(Exception, AnyOtherIsABug) {
  const Error error = meaning_of([] { throw std::logic_error("a bug"); });
  EXPECT_EQ(error.code(), ExitCode::internal);
  EXPECT_STREQ(error.what(), "internal error: a bug");
}

}  // namespace
}  // namespace cohort
