// Whole jobs: the checks of make_job, and what it puts into placeholders.
#include <gtest/gtest.h>

#include <filesystem>

#include "jobs/job.hpp"
#include "jobs/library.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

const std::filesystem::path kSource = COHORT_SOURCE_DIR;
const std::filesystem::path kJobs = kSource / "jobs";

JobRequest request(const std::string& name, const std::string& site = "generic", Count ranks = 4) {
  JobRequest request;
  request.source = read_template(find_template(kJobs, name));
  request.site = read_site_profile(kJobs / "sites" / (site + ".env"), kJobs / "sites");
  request.run_file = (kSource / "inputs/demo.toml").string();
  request.ranks = ranks;
  request.program = "/opt/cohort/bin/cohort";
  request.command = "cohort job";
  return request;
}

void refuses(const JobRequest& request, std::initializer_list<const char*> parts, ExitCode code = ExitCode::config) {
  test::expect_error([&] { make_job(request); }, code, parts);
}

bool has(const std::string& script, const std::string& line) { return script.find("\n" + line + "\n") != std::string::npos; }

TEST(Jobs, AskForTheShapeAndStartTheRun) {
  JobRequest asked = request("multi_node", "laptop");
  asked.overrides = {"run.name=mine", "model.kind='gpt2'"};
  const Job job = make_job(asked);
  EXPECT_EQ(job.name, "mine");
  EXPECT_EQ(job.layout, "dp 4 x pp 1 x cp 1 x tp 1");
  for (const std::string line :
       {"#SBATCH --job-name=mine", "#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=2", "#SBATCH --cpus-per-task=1",
        "#SBATCH --partition=laptop", "#SBATCH --time=0:20:00", "#SBATCH --signal=B:USR1@30", "#SBATCH --requeue",
        "export OMPI_MCA_pml=\"ob1\"", "run_folder=\"runs/mine\"", "cohort=\"/opt/cohort/bin/cohort\"",
        "command+=(--set 'run.name=mine' --set 'model.kind='\\''gpt2'\\''' --set 'checkpoint.site=local')"}) {
    EXPECT_TRUE(has(job.script, line)) << line << "\n" << job.script;
  }
  for (const std::string absent : {"--gpus", "--account", "--mem", "module load", "#@", "@NODES@"})
    EXPECT_EQ(job.script.find(absent), std::string::npos) << absent;
}

TEST(Jobs, RunFoldersLieOnScratchUnlessTheRunFileSaysWhere) {
  JobRequest asked = request("single_node", "example_ethernet_h100");
  EXPECT_EQ(make_job(asked).run_folder, "/nfs/$USER/cohort/runs/demo");
  asked.overrides = {"run.directory=elsewhere", "checkpoint.site=local"};
  EXPECT_EQ(make_job(asked).run_folder, "elsewhere");
  EXPECT_EQ(make_job(asked).script.find("checkpoint.site=nfs"), std::string::npos);
  asked.overrides = {"run.directory='$(id)'"};
  refuses(asked, {"run.directory", "'('"});
}

TEST(Jobs, GpusComeWithTheirTypeAndCores) {
  JobRequest asked = request("gpu", "example_ib_a100", 8);
  asked.overrides = {"device.kind=cuda", "train.global_batch=64"};
  const Job job = make_job(asked);
  EXPECT_EQ(job.shape, (JobShape{2, 4, 16, 4}));
  EXPECT_TRUE(has(job.script, "#SBATCH --gpus-per-node=a100:4")) << job.script;
  asked.overrides = {};
  refuses(asked, {"template gpu is for GPUs", "device.kind=cuda"});
  asked = request("gpu", "generic");
  asked.overrides = {"device.kind=cuda"};
  refuses(asked, {"built without CUDA", "COHORT="});
  asked.program_has_cuda = true;
  EXPECT_EQ(make_job(asked).shape, (JobShape{1, 4, 8, 4}));
}

TEST(Jobs, SweepsRunEachValueAsATask) {
  JobRequest asked = request("array_sweep");
  asked.sweep = parse_sweep("optimizer.learning_rate=1e-3,3e-3,6e-3");
  const Job job = make_job(asked);
  EXPECT_TRUE(has(job.script, "#SBATCH --array=0-2"));
  EXPECT_TRUE(has(job.script, "values=(1e-3 3e-3 6e-3)"));
  asked.sweep.values.push_back("fast");
  refuses(asked, {"optimizer.learning_rate"});
  asked.sweep = {};
  refuses(asked, {"--sweep"}, ExitCode::usage);
  asked = request("single_node");
  asked.sweep = parse_sweep("run.seed=1,2");
  refuses(asked, {"array_sweep"}, ExitCode::usage);
  test::expect_error([] { parse_sweep("optimizer.learning_rat=1"); }, ExitCode::usage, {"optimizer.learning_rate"});
  test::expect_error([] { parse_sweep("run.seed=1,2,1"); }, ExitCode::usage, {"comes twice"});
  test::expect_error([] { parse_sweep("run.seed"); }, ExitCode::usage, {"section.key"});
}

TEST(Jobs, OneTaskRewritesFilesForALayoutOfMany) {
  JobRequest asked = request("reshard");
  asked.overrides = {"parallel.tp=2"};
  const Job job = make_job(asked);
  EXPECT_EQ(job.shape, JobShape{});
  EXPECT_NE(job.script.find("--layout 'data=bucketed,dp=2,pp=1,cp=1,tp=2'"), std::string::npos) << job.script;
  asked.ranks = 3;
  refuses(asked, {"3"});
  EXPECT_NE(make_job(request("evaluation", "laptop", 3)).script.find("--ntasks-per-node=3"), std::string::npos);
}

TEST(Jobs, TheSiteMustSayWhatTheTemplateUses) {
  JobRequest asked = request("single_node");
  asked.site.values.erase("QOS");
  refuses(asked, {"resources.sbatch:", "@QOS@", "site generic", "add QOS="});
  asked = request("single_node");
  set_site_value(asked.site, "MPI=");
  refuses(asked, {"--set MPI=", "must not be empty"});
}

TEST(Jobs, TheRunMustFitItsRanks) {
  refuses(request("single_node", "generic", 3), {"global_batch"});
  refuses(request("single_node", "laptop", 8), {"8 ranks", "Nearest numbers of ranks that can: 4"});
}

TEST(Jobs, TimeLimitsAreReadAsSlurmReadsThem) {
  EXPECT_EQ(seconds_of_limit("30", "t"), 30 * 60);
  EXPECT_EQ(seconds_of_limit("5:30", "t"), 330);
  EXPECT_EQ(seconds_of_limit("2:00:00", "t"), 7200);
  EXPECT_EQ(seconds_of_limit("1-12", "t"), 36 * 3600);
  EXPECT_EQ(seconds_of_limit("1-12:30:10", "t"), 36 * 3600 + 1810);
  for (const std::string wrong : {"", "1h", "1:2:3:4", "-5", "1-"})
    test::expect_error([&] { seconds_of_limit(wrong, "--time"); }, ExitCode::usage, {"--time", "not a time limit"});
  JobRequest asked = request("single_node");
  set_site_value(asked.site, "TIME=3");
  refuses(asked, {"3 min", "SIGNAL_SECONDS", "4 min"});
}

TEST(Library, FindsByNameFileOrEnvironment) {
  EXPECT_EQ(find_jobs_folder("", kSource / "build/cpu/cohort"), kJobs);
  EXPECT_EQ(find_site(kJobs, "laptop"), kJobs / "sites/laptop.env");
  EXPECT_EQ(find_site(kJobs, (kJobs / "sites/laptop.env").string()), kJobs / "sites/laptop.env");
  ::setenv("COHORT_SITE", "laptop", 1);
  EXPECT_EQ(find_site(kJobs, ""), kJobs / "sites/laptop.env");
  EXPECT_EQ(find_site(kJobs, "generic"), kJobs / "sites/generic.env");
  ::unsetenv("COHORT_SITE");
  test::expect_error([] { find_site(kJobs, "labtop"); }, ExitCode::usage, {"did you mean laptop?"});
  test::expect_error([] { find_template(kJobs, "single_nod"); }, ExitCode::usage, {"did you mean single_node?"});
  test::expect_error([] { find_jobs_folder("", "/nowhere/bin/cohort"); }, ExitCode::io, {"--jobs"});
}

}  // namespace
}  // namespace cohort
