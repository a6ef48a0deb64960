#include "rundir/trace_files.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temporary_folder.hpp"

namespace cohort::test {
namespace {

TEST(TraceFiles, NoneReplacesAnother) {
  const TemporaryFolder folder;
  const auto add = [&](const char* name) { std::ofstream(folder / name) << "{}"; };
  EXPECT_EQ(next_trace_file(folder.path()).filename(), "trace.json");
  add("trace.json");
  EXPECT_EQ(next_trace_file(folder.path()).filename(), "trace_2.json");
  for (const char* name :
       {"trace_10.json", "trace_9.json", "trace_1.json", "trace_02.json", "trace_11.json.tmp", "trace_x.json", "traces.json"})
    add(name);
  EXPECT_EQ(next_trace_file(folder.path()).filename(), "trace_11.json");
  std::vector<std::string> names;
  for (const auto& file : trace_files(folder.path())) names.push_back(file.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"trace.json", "trace_9.json", "trace_10.json"}));
}

}  // namespace
}  // namespace cohort::test
