#include "report/report_page.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/run_folder.hpp"

namespace cohort::test {
namespace {

using nlohmann::ordered_json;

// What the page holds for its script.
ordered_json data_of(const std::string& page) {
  const std::string mark = "id=\"data\">";
  const std::size_t begin = page.find(mark) + mark.size();
  return ordered_json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(ReportPage, HoldsItsRuns) {
  const RunFolder a("a"), b("b");
  a.losses({5, 4, 3});
  b.losses({5, 3, 2});
  const std::vector<ordered_json> runs{report_of(read_run_record(a.path()), {{"plan_note", "of a"}}),
                                       report_of(read_run_record(b.path()), nullptr)};
  const ordered_json data = data_of(report_page(runs, "1.2"));
  ASSERT_EQ(data.at("runs").size(), 2u);
  EXPECT_EQ(data["runs"][0]["name"], "a");
  EXPECT_EQ(data["runs"][0]["plan_note"], "of a");
  EXPECT_EQ(data["runs"][1]["curves"]["loss"]["y"], (std::vector<double>{5, 3, 2}));
  EXPECT_EQ(data["runs"][1]["axes"]["units"]["y"], (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(data["runs"][1]["phases"]["forward"]["y"], (std::vector<double>{0.25, 0.25, 0.25}));
}

TEST(ReportPage, NothingInARunEndsItsScript) {
  const RunFolder run("<script>alert(1)");
  run.losses({5, 4});
  run.append("samples.jsonl", "{\"step\":2,\"text\":\"</script><b><!-- <script>\\u0000\\ufffd\"}\n");
  const std::string page = report_page(std::vector{report_of(read_run_record(run.path()), nullptr)}, "1.2");
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_EQ(page.find("<!--"), std::string::npos) << "it would change what ends a script";
  EXPECT_NE(page.find("<title>&lt;script&gt;"), std::string::npos);
  EXPECT_EQ(data_of(page)["runs"][0]["samples"][0]["text"].get<std::string>().substr(0, 12), "</script><b>");
}

// 100,000 steps, 256 ranks in each report, and 128 layers.
TEST(ReportPage, OfALongRunStaysSmall) {
  RunRecord run;
  for (Count i = 1; i <= 100'000; ++i) {
    for (const char* figure :
         {"loss", "learning_rate", "gradient_norm", "tokens", "tokens_per_second", "mfu", "seconds.step", "seconds.forward"})
      run.figures[figure].add(i, 1.0 / static_cast<double>(i) + static_cast<double>(i % 13) * 0.01234567);
    if (i % 10 != 0) continue;
    run.ranks.add(i, std::vector<double>(256, 0.1234567 * static_cast<double>(i % 7)));
    run.gradients.map.add(i, std::vector<double>(128, 1e-3 / static_cast<double>(i)));
  }
  run.gradients.units.assign(128, "blocks.99");
  EXPECT_LT(report_page(std::vector{report_of(run, nullptr)}, "1.2").size(), 2'500'000u);
}

}  // namespace
}  // namespace cohort::test
