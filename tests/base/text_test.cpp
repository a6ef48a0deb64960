#include "base/text.hpp"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(NearestName, FindsTypos) {
  const std::vector<std::string> names{"width", "heads", "layers", "learning_rate"};
  EXPECT_EQ(nearest_name("widht", names), "width");
  EXPECT_EQ(nearest_name("head", names), "heads");
  EXPECT_EQ(nearest_name("learningrate", names), "learning_rate");
  EXPECT_EQ(nearest_name("layers", names), "layers");
}

TEST(NearestName, SuggestsNothingThatIsFarAway) {
  EXPECT_EQ(nearest_name("zzzz", {"width", "heads"}), "");
  EXPECT_EQ(nearest_name("width", {}), "");
  EXPECT_EQ(nearest_name("", {"width"}), "");
}

TEST(HumanSizes, ChangeUnitsWhereTheyShould) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(3 * kGiB), "3.0 GiB");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(124439808), "124.44M");
  EXPECT_EQ(human_seconds(12.4), "12 s");
  EXPECT_EQ(human_seconds(59.6), "1 min 00 s");
  EXPECT_EQ(human_seconds(185), "3 min 05 s");
  EXPECT_EQ(human_seconds(7620), "2 h 07 min");
  EXPECT_EQ(human_seconds(-1), "0 s");
}

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(800, "rank"), "800 ranks");
  EXPECT_EQ(counted(1, "micro-batch", "micro-batches"), "1 micro-batch");
  EXPECT_EQ(counted(2, "micro-batch", "micro-batches"), "2 micro-batches");
}

TEST(Join, PutsSeparatorsBetween) {
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(join({"a"}), "a");
  EXPECT_EQ(join({"a", "b", "c"}, " or "), "a or b or c");
}

TEST(Text, TheFirstOfALongList) {
  EXPECT_EQ(first_few({}), "");
  EXPECT_EQ(first_few({"a", "b", "c", "d", "e"}), "a, b, c, d, e");
  EXPECT_EQ(first_few({"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e and 2 more");
  EXPECT_EQ(first_few({"a", "b"}, 1), "a and 1 more");
}

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("a longerword b", 5), (std::vector<std::string>{"a", "longerword", "b"}));
  EXPECT_EQ(wrapped("", 5), std::vector<std::string>{""});
}

TEST(Table, AlignsColumns) {
  Table table({"name", "count"});
  table.add({"a", "1"});
  table.add({"longer", "1000"});
  EXPECT_EQ(table.str(), "name    count\na           1\nlonger   1000\n");
  EXPECT_EQ(table.str(2), "name    count\na       1\nlonger  1000\n");
}

TEST(Table, AcceptsShortRowsAndLeavesNoTrailingSpaces) {
  Table table({"a", "b"});
  table.add({"only"});
  EXPECT_EQ(table.str(2), "a     b\nonly\n");
}

}  // namespace
}  // namespace cohort
