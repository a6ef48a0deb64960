// The template engine: what is filled in, what is left out, what is refused.
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.hpp"
#include "jobs/template.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using Values = std::map<std::string, std::string>;

class Templates : public ::testing::Test {
 protected:
  void SetUp() override { make_folders(folder_.path() / "parts"); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_.path() / name) << text; }
  JobTemplate read(const std::string& text) {
    write("job.sbatch", "#!/usr/bin/env bash\n#@ description: a job\n" + text);
    return read_template(folder_.path() / "job.sbatch");
  }
  std::string rendered(const std::string& text, const Values& values) { return render(read(text), values); }
  void refuses(const std::string& text, const Values& values, std::initializer_list<const char*> parts) {
    test::expect_error([&] { rendered(text, values); }, ExitCode::config, parts);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Templates, PlaceholdersAreReplacedAndNothingElse) {
  EXPECT_EQ(rendered("a=@A@ @B_2@ \"${list[@]}\" x@y.z @a@ @ @@A@\n", {{"A", "1"}, {"B_2", "2"}}),
            "#!/usr/bin/env bash\na=1 2 \"${list[@]}\" x@y.z @a@ @ @1\n");
}

TEST_F(Templates, ALineWithNothingToSayGoesWithItsComment) {
  const std::string text = "# stays\n\n# goes\n# with it\n#SBATCH --qos=@QOS@\n# of the next\n#SBATCH --time=@TIME@\n";
  EXPECT_EQ(rendered(text, {{"QOS", ""}, {"TIME", "5"}}), "#!/usr/bin/env bash\n# stays\n\n# of the next\n#SBATCH --time=5\n");
  EXPECT_EQ(rendered("#SBATCH --a=1\n#SBATCH --qos=@QOS@\n", {{"QOS", ""}}), "#!/usr/bin/env bash\n#SBATCH --a=1\n");
  EXPECT_EQ(rendered("#SBATCH --qos=@QOS@\n", {{"QOS", ""}}), "#!/usr/bin/env bash\n");
  EXPECT_EQ(rendered("a\n\n@ALL@\n\nb\n", {{"ALL", ""}}), "#!/usr/bin/env bash\na\n\nb\n");
}

TEST_F(Templates, PartsAreIncluded) {
  write("parts/end.sbatch", "exit @CODE@\n");
  EXPECT_EQ(rendered("@include end.sbatch\nx\n", {{"CODE", "3"}}), "#!/usr/bin/env bash\nexit 3\nx\n");
  write("parts/end.sbatch", "\nexit @CODES@\n");
  refuses("@include end.sbatch\n", {{"CODE", "3"}}, {"parts/end.sbatch:2", "@CODES@", "did you mean @CODE@?"});
  refuses("@include edn.sbatch\n", {}, {"job.sbatch:3", "no part ", "edn.sbatch"});
  write("parts/end.sbatch", "@include end.sbatch\n");
  refuses("@include end.sbatch\n", {}, {"parts/end.sbatch:1", "a part cannot include another"});
}

TEST_F(Templates, FactsAreReadAndDoNotGoIntoTheJob) {
  const JobTemplate job = read("#@ nodes: 2+\n#@ tasks: any\n#@ device: cuda\necho\n");
  EXPECT_EQ(job.name, "job");
  EXPECT_EQ(job.facts.description, "a job");
  EXPECT_EQ(job.facts.least_nodes, 2);
  EXPECT_EQ(job.facts.most_nodes, 0);
  EXPECT_EQ(job.facts.tasks, TemplateFacts::Tasks::any);
  EXPECT_TRUE(job.facts.needs_gpus);
  EXPECT_EQ(render(job, {}), "#!/usr/bin/env bash\necho\n");
  refuses("#@ nodes: 3\n", {}, {"job.sbatch:3", "nodes: 3", "1, 1+, 2+"});
  refuses("#@ node: 1\n", {}, {"job.sbatch:3", "node"});
  write("bare.sbatch", "echo\n");
  test::expect_error([&] { read_template(folder_.path() / "bare.sbatch"); }, ExitCode::config, {"bare.sbatch:1", "description"});
}

TEST_F(Templates, RefuseWhatSbatchOrBashWouldMisread) {
  refuses("\n#SBATCH --qos=@QOS@\n", {{"QOS", "a b"}}, {"job.sbatch:4", "QOS", "' '"});
  refuses("#SBATCH --qos=@QOS@\n", {{"QOS", "$USER"}}, {"job.sbatch:3", "'$'"});
  refuses("x @ALL@\n", {{"ALL", "a\nb"}}, {"job.sbatch:3", "several lines"});
  refuses("# @QOSS@\n", {{"QOS", ""}}, {"job.sbatch:3", "unknown placeholder @QOSS@", "@QOS@"});
}

TEST_F(Templates, PlaceholdersAreListedWithTheirPlaces) {
  const JobTemplate job = read("a @B@\n@A@ @B@\n");
  const std::vector<Placeholder> all = placeholders_of(job);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].name, "A");
  EXPECT_TRUE(all[1].place.ends_with("job.sbatch:4")) << all[1].place;
  EXPECT_TRUE(uses(job, "B"));
  EXPECT_FALSE(uses(job, "C"));
}

}  // namespace
}  // namespace cohort
