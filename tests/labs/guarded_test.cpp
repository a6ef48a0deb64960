// Arrays that notice what is written beside them.
#include "labs/grading/guarded.hpp"

#include <gtest/gtest.h>

#include "labs/grading/grading.hpp"

namespace cohort::labs {
namespace {

std::string complaint(const Guarded& array) {
  try {
    array.check("data");
  } catch (const Rejected& error) {
    return error.what();
  }
  return "";
}

TEST(Guarded, KeepsValuesAndNoticesWritesBesideThem) {
  Guarded array({1.0f, 2.0f});
  EXPECT_EQ(array[1], 2.0f);
  array.span()[0] = 5.0f;
  EXPECT_EQ(array[0], 5.0f);
  EXPECT_EQ(complaint(array), "");
  array.span().data()[2] = 0.0f;
  EXPECT_EQ(complaint(array), "data: something was written to element 2, but it has 2");
  Guarded before({1.0f});
  before.span().data()[-3] = 0.0f;
  EXPECT_EQ(complaint(before), "data: something was written 3 before its first element");
}

}  // namespace
}  // namespace cohort::labs
