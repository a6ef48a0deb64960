// Which checkpoints stay: the decision in all its combinations, and what prune_checkpoints() does on disk.
#include "checkpoint/store/retention.hpp"

#include <sys/inotify.h>

#include <array>
#include <cmath>

#include "checkpoint/checkpoint_fixture.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// The steps that stay of 10, 20, ..., 60 with the given losses. `damaged`: steps that are not sound.
std::vector<Count> staying(const Retention& retention, std::vector<double> losses = {5, 2, 3, 2, 4, 6},
                           const std::vector<Count>& damaged = {}) {
  std::vector<RetentionCandidate> candidates;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const Count step = 10 * (static_cast<Count>(i) + 1);
    candidates.push_back({step, std::find(damaged.begin(), damaged.end(), step) == damaged.end(), losses[i]});
  }
  const std::vector<RetentionVerdict> verdicts = apply_retention(candidates, retention);
  std::vector<Count> steps;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    EXPECT_EQ(verdicts[i].stays, !verdicts[i].reason.empty()) << candidates[i].step;
    if (verdicts[i].stays) steps.push_back(candidates[i].step);
  }
  return steps;
}

using Steps = std::vector<Count>;

TEST(Retention, Matrix) {
  EXPECT_EQ(staying({.keep = 0, .keep_every = 20, .keep_best = true}), (Steps{10, 20, 30, 40, 50, 60})) << "0 keeps all";
  EXPECT_EQ(staying({.keep = 1}), (Steps{60}));
  EXPECT_EQ(staying({.keep = 2}), (Steps{50, 60}));
  EXPECT_EQ(staying({.keep = 9}), (Steps{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(staying({.keep = 1, .keep_every = 20}), (Steps{20, 40, 60}));
  EXPECT_EQ(staying({.keep = 1, .keep_every = 25}), (Steps{50, 60}));
  EXPECT_EQ(staying({.keep = 1, .keep_every = 70}), (Steps{60}));
  EXPECT_EQ(staying({.keep = 1, .keep_best = true}), (Steps{40, 60})) << "of the equal losses of 20 and 40 the newer";
  EXPECT_EQ(staying({.keep = 3, .keep_best = true}), (Steps{40, 50, 60})) << "the best may be one of the newest";
  EXPECT_EQ(staying({.keep = 1, .keep_every = 30, .keep_best = true}), (Steps{30, 40, 60}));
  EXPECT_TRUE(apply_retention({}, {.keep = 1}).empty());
}

TEST(Retention, LossesThatAreNone) {
  EXPECT_EQ(staying({.keep = 1, .keep_best = true}, {kNone, 3, kNone, 9, kNone}), (Steps{20, 50})) << "not measured is not best";
  EXPECT_EQ(staying({.keep = 1, .keep_best = true}, {kNone, kNone, kNone}), (Steps{30}));
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(staying({.keep = 1, .keep_best = true}, {infinite, kNone, 3}), (Steps{30}));
  EXPECT_EQ(staying({.keep = 1, .keep_best = true}, {-infinite, 4, 5}), (Steps{20, 30}));
  EXPECT_EQ(validation_loss_of("2.5"), 2.5);
  for (const char* text : {"", "nan", "2.5x", "loss"}) EXPECT_TRUE(std::isnan(validation_loss_of(text))) << text;
}

TEST(Retention, DamagedOnesNeitherCountNorGo) {
  const std::vector<double> losses{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(staying({.keep = 1}, losses, {60}), (Steps{50, 60})) << "the newest sound one stays";
  EXPECT_EQ(staying({.keep = 2}, losses, {30, 50}), (Steps{30, 40, 50, 60}));
  EXPECT_EQ(staying({.keep = 1, .keep_best = true}, losses, {10}), (Steps{10, 20, 60})) << "best of the known";
  EXPECT_EQ(staying({.keep = 1}, losses, {10, 20, 30, 40, 50, 60}), (Steps{10, 20, 30, 40, 50, 60}));
}

TEST(Retention, ARuleOfOnesOwnDecidesButNotOverTheNewest) {
  std::vector<Count> gone{20, 40};
  use_own_retention([&](const std::vector<RetentionCandidate>&, const Retention&) { return gone; });
  EXPECT_EQ(staying({.keep = 1}), (std::vector<Count>{10, 30, 50, 60}));
  gone = {60};
  EXPECT_ERROR(staying({.keep = 1}), ExitCode::usage, "step 60, the newest");
  gone = {30};
  EXPECT_ERROR(staying({.keep = 1}, {5, 2, 3, 2, 4, 6}, {30}), ExitCode::usage, "step 30, which is damaged");
  gone = {50};
  EXPECT_ERROR(staying({.keep = 1}, {5, 2, 3, 2, 4, 6}, {60}), ExitCode::usage, "step 50, the newest");
  use_own_retention(nullptr);
  EXPECT_EQ(staying({.keep = 1}), (std::vector<Count>{60}));
}

using Losses = std::vector<std::pair<Count, std::string>>;

class Prune : public CheckpointTest {
 protected:
  void save(Count step, const std::string& loss) {
    const auto model = make_model();
    TrainingState state = make_state(step);
    state.validation_loss = loss;
    save_checkpoint(run_, *model, state);
  }
};

TEST_F(Prune, KeepsTheBestOnDisk) {
  for (const auto& [step, loss] : Losses{{10, "3"}, {20, "1.5"}, {30, "2"}, {40, ""}, {50, "9"}}) save(step, loss);
  prune_checkpoints(run_, 40, {.keep = 1, .keep_best = true});
  EXPECT_EQ(steps(), (Steps{20, 40, 50})) << "later steps are not ours to judge";
  prune_checkpoints(run_, 50, {.keep = 1, .keep_every = 40});
  EXPECT_EQ(steps(), (Steps{40, 50}));
  EXPECT_EQ(entries(), 2u) << "nothing is left of the others";
}

TEST_F(Prune, AStateThatCannotBeReadStaysWhenTheBestIsWanted) {
  for (const auto& [step, loss] : Losses{{10, "3"}, {20, "1.5"}, {30, "2"}, {40, "4"}}) save(step, loss);
  write_all(checkpoints_folder(run_) / step_name(20) / kModelFile, "not HDF5");
  prune_checkpoints(run_, 40, {.keep = 1, .keep_best = true});
  EXPECT_EQ(steps(), (Steps{20, 30, 40}));
  prune_checkpoints(run_, 40, {.keep = 2});
  EXPECT_EQ(steps(), (Steps{30, 40})) << "without keep_best no state is read";
}

// Whoever opens what is being deleted finds no manifest or no index, rather than an index without its rank files.
TEST_F(Prune, ManifestAndIndexGoFirst) {
  const auto model = make_model();
  std::vector<std::vector<WriteItem>> ranks(40);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Tensor whole = Tensor::zeros("part", {4});
    ranks[rank].push_back({fmt::format("/model/part{}", rank), static_cast<int>(rank), DType::f32, TensorPart(Shape{4}),
                           [whole](Count begin, Count elements) { return whole.slice(begin, begin + elements); }});
  }
  save_parts_of_ranks(run_, ranks, make_state(10), {.form = CheckpointForm::per_rank});
  const fs::path folder = checkpoints_folder(run_) / step_name(10);
  const int events = ::inotify_init1(IN_NONBLOCK);
  ASSERT_GE(::inotify_add_watch(events, folder.c_str(), IN_DELETE), 0);
  remove_checkpoint(run_, {10, folder});
  std::vector<std::string> gone;
  alignas(inotify_event) std::array<char, 1 << 16> bytes;
  const ssize_t length = ::read(events, bytes.data(), bytes.size());
  for (ssize_t at = 0; at < length;) {
    const auto* event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
    if ((event->mask & IN_DELETE) != 0) gone.emplace_back(event->name);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  ::close(events);
  ASSERT_EQ(gone.size(), 42u);
  EXPECT_EQ(gone[0], kManifestFile);
  EXPECT_EQ(gone[1], kModelFile);
}

TEST_F(Prune, SavingPrunes) {
  for (const Count step : Steps{10, 20, 30}) {
    const auto model = make_model();
    TrainingState state = make_state(step);
    state.validation_loss = std::to_string(step);  // rising: the first is the best
    save_checkpoint(run_, *model, state, {.retention = {.keep = 1, .keep_best = true}});
  }
  EXPECT_EQ(steps(), (Steps{10, 30}));
}

}  // namespace
}  // namespace cohort::test
