#include "plan/profile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "telemetry/device_peaks.hpp"

namespace cohort::test {
namespace {

OpWork product(Count m, Count n, Count k, DType dtype = DType::bf16) {
  const auto flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto bytes = static_cast<double>(size_of(dtype) * (m * n + m * k + n * k));
  return {"linear_forward", OpKind::product, dtype, false, m, n, k, flops, bytes};
}

OpSample sample(const char* op, OpKind kind, Count m, Count n, Count k, double flops, double bytes, double seconds) {
  return {op, kind, DType::f32, false, m, n, k, flops, bytes, seconds};
}

MachineProfile measured() {
  MachineProfile profile;
  profile.name = "two ranks";
  profile.basis = "measured for a test";
  profile.measured = true;
  profile.device = DeviceKind::cpu;
  profile.ranks_per_node = 2;
  profile.hidden = 0.25;
  profile.host_bytes_per_second = 21e9;
  profile.ops = {sample("linear_forward", OpKind::product, 64, 64, 64, 524288, 49152, 1e-5),
                 sample("linear_forward", OpKind::product, 1024, 1024, 1024, 2147483648, 12582912, 0.02),
                 sample("attention_forward", OpKind::attention, 8, 64, 32, 2129920, 100000, 1e-4),
                 sample("add", OpKind::pointwise, 100, 10, 0, 0, 12000, 2e-6),
                 sample("add", OpKind::pointwise, 1000, 100, 0, 0, 1200000, 4e-4)};
  profile.node = {1e-6, 2e9};
  profile.network = {0.0, 0.0};
  profile.collectives = {{"all_reduce", 2, 1, 1024, 1e-5}, {"all_reduce", 2, 1, 1 << 20, 1e-3}};
  return profile;
}

TEST(Datasheets, AreEstimatesBelowThePeak) {
  const MachineProfile h100 = datasheet_profile("h100");
  EXPECT_FALSE(h100.measured);
  EXPECT_NE(h100.basis.find("estimates"), std::string::npos);
  EXPECT_GT(h100.memory, 70 * kGiB);
  EXPECT_LT(h100.memory, 80 * kGiB);
  const OpWork large = product(8192, 8192, 8192);
  const double share = large.flops / h100.seconds_of(large) / 989.4e12;
  EXPECT_GT(share, 0.6);
  EXPECT_LT(share, 0.8);
  EXPECT_GT(h100.seconds_of(product(16, 16, 16)), 1e-6) << "launching a kernel takes time";
  EXPECT_GT(h100.seconds_of(product(8192, 8192, 8192, DType::f32)), 5.0 * h100.seconds_of(large));
  for (const std::string& name : datasheet_names()) EXPECT_NO_THROW(datasheet_profile(name)) << name;
  EXPECT_EQ(datasheet_profile("H100-PCIe").memory, datasheet_profile("h100_pcie").memory);
}

TEST(Datasheets, OfNoSuchGpuSayWhichThereAre) {
  expect_error([] { datasheet_profile("h1000"); }, ExitCode::usage, {"--gpu h1000", "did you mean h100", "b200"});
  expect_error([] { datasheet_profile(""); }, ExitCode::usage, {"--gpu", "h100"});
}

// Without the sums of a bias a gradient of weights is an op of its own, which profiles of older programs have not.
TEST(Profiles, TimeGradientsOfWeightsWithAndWithoutABias) {
  MachineProfile profile = measured();
  OpWork work = product(64, 64, 64, DType::f32);
  work.op = "linear_backward_weight_alone";
  const auto add = [&](const char* op, double seconds) {
    profile.ops.push_back(sample(op, OpKind::product, 64, 64, 64, 524288, 49152, seconds));
  };
  add("linear_backward_weight", 3e-5);
  EXPECT_NEAR(profile.seconds_of(work), 3e-5, 1e-9);
  add("linear_backward_weight_alone", 2e-5);
  EXPECT_NEAR(profile.seconds_of(work), 2e-5, 1e-9);
  work.op = "linear_backward_weight";
  EXPECT_NEAR(profile.seconds_of(work), 3e-5, 1e-9);
}

TEST(Profiles, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  std::ofstream(folder / "profile.json") << to_json(measured());
  const MachineProfile read = read_profile(folder / "profile.json");
  EXPECT_EQ(to_json(read), to_json(measured()));
  EXPECT_TRUE(read.measured);
}

TEST(Profiles, ThatAreDamagedAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, std::initializer_list<const char*> parts) {
    std::ofstream(folder / "profile.json") << text;
    expect_error([&] { read_profile(folder / "profile.json"); }, ExitCode::config, parts);
  };
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = to_json(measured());
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string whole = to_json(measured());
  refused(whole.substr(0, whole.size() / 2), {"profile.json"});
  refused("{}", {"profile.json", "not a machine profile", "cohort bench calibration"});
  refused("[1, 2]", {"not a machine profile"});
  refused(with("\"version\": 1", "\"version\": 2"), {"version 2", "reads 1", "cohort bench calibration"});
  refused(with("\"seconds\": 1e-05", "\"seconds\": -1"), {"\"seconds\"", "-1"});
  refused(with("\"device\": \"cpu\"", "\"device\": \"tpu\""), {"tpu", "cpu or cuda"});
  refused(with("\"hidden_share\": 0.25", "\"hidden_share\": 1.5"), {"hidden_share", "1.5"});
  refused(with("\"op\": \"attention_forward\"", "\"op\": \"other\""), {"no measurement of attention_forward"});
  refused(with("\"kind\": \"attention\"", "\"kind\": \"magic\""), {"magic"});
  MachineProfile rowless = measured();
  rowless.ops.back().grid = true;
  rowless.ops.back().n = 0;
  refused(to_json(rowless), {"add", "grid", "\"n\" is 0"});
  expect_error([&] { read_profile(folder / "none.json"); }, ExitCode::io, {"none.json"});
}

TEST(Profiles, MeetTheirSamplesAndLieBetweenThem) {
  const MachineProfile profile = measured();
  OpWork work{"linear_forward", OpKind::product, DType::f32, false, 64, 64, 64, 524288, 49152};
  EXPECT_NEAR(profile.seconds_of(work), 1e-5, 1e-8);
  work = {"linear_forward", OpKind::product, DType::f32, false, 256, 256, 256, 2.0 * 256 * 256 * 256, 0};
  const double speed = work.flops / profile.seconds_of(work);
  EXPECT_GT(speed, 524288 / 1e-5);
  EXPECT_LT(speed, 2147483648 / 0.02);
  EXPECT_NEAR(profile.seconds_of(OpWork{.op = "add", .bytes = 12000}), 2e-6, 1e-12);
  EXPECT_NEAR(profile.seconds_of(OpWork{.op = "add", .bytes = 120000}), std::sqrt(2e-6 * 4e-4), 1e-9);
  EXPECT_NEAR(profile.seconds_of(OpWork{.op = "add", .bytes = 12}), 2e-6, 1e-12) << "no call is faster";
  EXPECT_NEAR(profile.seconds_of(OpWork{.op = "add", .bytes = 2400000}), 8e-4, 1e-9);
  EXPECT_EQ(profile.seconds_of(OpWork{.op = "never measured", .bytes = 12000}),
            profile.seconds_of(OpWork{.op = "add", .bytes = 12000}));
  EXPECT_NEAR(profile.seconds_of("all_reduce", {2, 1, 2}, 1024), 1e-5, 1e-12);
  EXPECT_GT(profile.seconds_of("all_reduce", {4, 1, 4}, 1 << 20), 1.3e-3) << "3/4 of the bytes move instead of 1/2";
}

// Of as many bytes, shorter rows take longer.
TEST(Profiles, TimeOpsOnRowsByTheLengthOfARow) {
  MachineProfile profile = measured();
  const auto norm = [&](Count rows, Count length, double seconds) {
    const double bytes = 8.0 * static_cast<double>(rows * length);
    profile.ops.push_back(sample("norm", OpKind::pointwise, rows, length, 0, 0, bytes, seconds));
    profile.ops.back().grid = true;
  };
  const auto seconds_of = [&](Count rows, Count length) {
    const double bytes = 8.0 * static_cast<double>(rows * length);
    return profile.seconds_of(OpWork{.op = "norm", .m = rows, .n = length, .bytes = bytes});
  };
  norm(16, 64, 4e-6);
  norm(1024, 64, 2e-4);
  norm(1, 1024, 1e-6);
  norm(64, 1024, 5e-5);
  EXPECT_NEAR(seconds_of(16, 64), 4e-6, 1e-12);
  EXPECT_NEAR(seconds_of(64, 1024), 5e-5, 1e-12);
  EXPECT_NEAR(seconds_of(4, 256), 2e-6, 1e-12) << "256 is half way between 64 and 1,024";
  EXPECT_NEAR(seconds_of(256, 256), 1e-4, 1e-10);
  EXPECT_NEAR(seconds_of(32, 32), 4e-6, 1e-12) << "shorter than all: as the shortest";
  EXPECT_NEAR(seconds_of(32, 4096), 1e-4, 1e-10) << "longer than all: as the longest, and above its sizes its speed";
  for (OpSample& one : profile.ops) one.grid = false;
  EXPECT_EQ(seconds_of(64, 1024), seconds_of(1024, 64)) << "of no grid: by bytes alone";
}

// Profiles say what is a grid. Of older programs it is seen by the numbers of sizes.
TEST(Profiles, OfOlderProgramsHaveTheirGrids) {
  const TemporaryFolder folder;
  MachineProfile profile = measured();
  const auto norm = [&](Count length, double bytes) {
    profile.ops.push_back(sample("norm", OpKind::pointwise, 16, length, 0, 0, bytes, 1e-6));
  };
  const auto grids_of = [&](const std::string& text) {
    std::ofstream(folder / "profile.json") << text;
    int grids = 0;
    for (const OpSample& one : read_profile(folder / "profile.json").ops) grids += one.op == "norm" && one.grid ? 1 : 0;
    return grids;
  };
  const auto without_the_key = [&] {
    std::string text = to_json(profile);
    for (const std::string key : {",\n   \"grid\": false", ",\n   \"grid\": true"}) {
      for (std::size_t at = text.find(key); at != text.npos; at = text.find(key)) text.erase(at, key.size());
    }
    EXPECT_EQ(text.find("grid"), text.npos);
    return text;
  };
  for (const Count length : {64, 1024}) {
    for (const double bytes : {8192.0, 524288.0}) norm(length, bytes);
  }
  EXPECT_EQ(grids_of(without_the_key()), 4);
  EXPECT_EQ(grids_of(to_json(profile)), 0) << "it says that there is none";
  norm(512, 8192.0);
  EXPECT_EQ(grids_of(without_the_key()), 0) << "one size of a length is no curve";
  for (OpSample& one : profile.ops) one.grid = one.op == "norm";
  EXPECT_EQ(grids_of(to_json(profile)), 5) << "it says that there is one";
}

TEST(Links, CostWhatTheirAlgorithmsCost) {
  const MachineProfile h100 = datasheet_profile("h100");
  const auto time = [&](const char* operation, GroupSpan span, Bytes bytes = kGiB) {
    return h100.seconds_of(operation, span, bytes);
  };
  EXPECT_EQ(time("all_reduce", {1, 1, 1}), 0.0);
  EXPECT_NEAR(time("all_reduce", {8, 1, 8}), 2.0 * time("all_gather", {8, 1, 8}), 0.02 * time("all_reduce", {8, 1, 8}));
  EXPECT_EQ(time("all_gather", {8, 1, 8}), time("reduce_scatter", {8, 1, 8}));
  // A rank alone on its node has one way out, eight have eight.
  EXPECT_GT(time("all_gather", {8, 8, 1}), 5.0 * time("all_gather", {64, 8, 8}));
  EXPECT_GT(time("all_gather", {16384, 2048, 8}, 1024), 100.0 * time("all_gather", {64, 8, 8}, 1024)) << "a ring's hops";
  EXPECT_LT(time("all_reduce", {16384, 2048, 8}, 1024), 0.1 * time("all_gather", {16384, 2048, 8}, 1024)) << "a tree has few";
}

TEST(Links, KnowWhereRanksAre) {
  std::vector<int> members(64);
  std::iota(members.begin(), members.end(), 0);
  const GroupSpan all = span_of(members, 8);
  EXPECT_EQ(all.nodes, 8);
  EXPECT_EQ(all.most_of_node, 8);
  const GroupSpan strided = span_of({0, 8, 16, 24}, 8);
  EXPECT_EQ(strided.nodes, 4);
  EXPECT_EQ(strided.most_of_node, 1);
}

}  // namespace
}  // namespace cohort::test
