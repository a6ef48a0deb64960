// Bytes as text and back.
#include "data/base64.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace cohort {
namespace {

TEST(Base64, IsThatOfTheStandard) {
  const std::pair<const char*, const char*> pairs[] = {{"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"\xff\xfe\xfd", "//79"}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  for (const char* wrong : {"", "Zg=", "Z", "Zg==Zg==", "Zm9*"}) EXPECT_FALSE(from_base64(wrong)) << wrong;
}

}  // namespace
}  // namespace cohort
