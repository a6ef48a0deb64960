// Lab 10: causes (diagnosis_graders.cpp), and decisions: how often to save, at which step all stop, whether to start again.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <span>
#include <vector>

#include "base/text.hpp"
#include "labs/10_operations/diagnosis_graders.hpp"
#include "labs/grading/ranks.hpp"
#include "labs/labs.hpp"

namespace cohort::labs::lab10_operations {
namespace {

// 10.4
void check_seconds(const char* name, double found, double right, double wrong, const char* why) {
  if (std::fabs(found - right) <= 1e-9 * std::fabs(right)) return;  // of rounding: some ten operations in double precision
  const bool known = std::fabs(found - wrong) <= 1e-9 * std::fabs(wrong);
  reject("{} is {:.6g}{}", name, found,
         known ? fmt::format(": {}", why) : fmt::format(", {:.4g} times what it is by the formula", found / right));
}

double young_of(double save, double mtbf) { return std::sqrt(2.0 * save * mtbf); }

double daly_of(double save, double mtbf) {
  const double x = save / (2.0 * mtbf);
  return save < 2.0 * mtbf ? young_of(save, mtbf) * (1.0 + std::sqrt(x) / 3.0 + x / 9.0) - save : mtbf;
}

double goodput_of(double interval, double save, double restart, double mtbf) {
  return interval / (mtbf * std::exp(restart / mtbf) * (std::exp((interval + save) / mtbf) - 1.0));
}

void grade_interval(const Library& library, Grading& grading) {
  auto* find = library.function<CheckpointInterval(double, double, double, int)>("checkpoint_interval");
  struct Case {
    double save, restart, node_mtbf;
    int nodes;
  };
  // The first three are those of Daly's figures 3 to 5.
  for (const Case& one : {Case{300, 600, 86400, 1}, Case{300, 600, 21600, 1}, Case{300, 600, 900, 1}, Case{60, 300, 3e7, 1000},
                          Case{30, 120, 1e8, 16}, Case{500, 10, 200, 1}, Case{10, 0, 1e6, 100}, Case{400, 10, 200, 1}}) {
    grading.begin(fmt::format("save {:g} s, restart {:g} s, a node fails in {:g} s, {}", one.save, one.restart, one.node_mtbf,
                              counted(one.nodes, "node")));
    const CheckpointInterval found = find(one.save, one.restart, one.node_mtbf, one.nodes);
    const double mtbf = one.node_mtbf / one.nodes;
    const double young = young_of(one.save, mtbf), daly = daly_of(one.save, mtbf),
                 goodput = goodput_of(daly, one.save, one.restart, mtbf);
    check_seconds("young", found.young, young, young_of(one.save, one.node_mtbf),
                  "that is for one node; any of the nodes that fails ends the job");
    if (one.save < 2.0 * mtbf && std::fabs(found.daly - (young - one.save)) <= 1e-9 * young)
      reject("daly is {:.6g}: that is the first term of the series alone, less the save", found.daly);
    check_seconds("daly", found.daly, daly, daly + one.save, "t is the training between two saves, without the save");
    check_seconds("goodput", found.goodput, goodput, goodput_of(young, one.save, one.restart, mtbf),
                  "that is the one of Young's interval");
    if (!(found.goodput >= 0.0 && found.goodput <= 1.0)) reject("goodput is {:g}: it is a share of the time", found.goodput);
  }
}

// 10.5
struct Signals {
  std::string words;
  std::vector<int> at;  // by rank: the step in which it is signalled; 0: never
};

std::vector<Signals> made_signals(int ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<Signals> all{{"no signal", std::vector<int>(size, 0)}, {"all are signalled in step 2", std::vector<int>(size, 2)}};
  for (const int rank : {0, ranks - 1, ranks / 2}) {
    all.push_back({fmt::format("rank {} alone is signalled, in step 3", rank), std::vector<int>(size, 0)});
    all.back().at[static_cast<std::size_t>(rank)] = 3;
  }
  all.push_back({"each rank is signalled in another step", std::vector<int>(size, 0)});
  for (int rank = 0; rank < ranks; ++rank) all.back().at[static_cast<std::size_t>(rank)] = 2 + (rank * 3 + 1) % 5;
  return all;
}

constexpr int kSteps = 6;

int step_of_stop(const Signals& signals) {
  int first = kSteps + 1;
  for (const int at : signals.at) first = at > 0 && at < first ? at : first;
  return first;
}

// A Link that refuses long messages.
class WordLink : public lab::Link {
 public:
  explicit WordLink(lab::Link& link) : link_(link) {}
  int rank() const override { return link_.rank(); }
  int ranks() const override { return link_.ranks(); }
  void send(int to, std::span<const float> data) override { link_.send(to, word(data)); }
  void receive(int from, std::span<float> data) override { link_.receive(from, data); }
  void exchange(int to, std::span<const float> sent, int from, std::span<float> received) override {
    link_.exchange(to, word(sent), from, received);
  }

 private:
  std::span<const float> word(std::span<const float> data) const {
    if (data.size() > 1) reject("rank {} sends {} elements at once: one says it", rank(), data.size());
    return data;
  }
  lab::Link& link_;
};

void grade_stop(const Library& library, Grading& grading) {
  auto* stop = library.function<bool(lab::Link&, bool)>("stop_in_time");
  for (const int ranks : {2, 1, 4, 3, 5, 8, 7}) {
    for (const Signals& signals : made_signals(ranks)) {
      grading.begin(fmt::format("{}, {}", counted(ranks, "rank"), signals.words));
      const int right = step_of_stop(signals), rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
      // A step at a time: ranks that disagree are told of, before they wait for each other.
      for (int step = 1; step <= std::min(right, kSteps); ++step) {
        std::vector<int> answers(static_cast<std::size_t>(ranks), 0);
        const Traffic traffic = run_ranks(ranks, [&](lab::Link& link) {
          const auto rank = static_cast<std::size_t>(link.rank());
          WordLink words(link);
          answers[rank] = stop(words, signals.at[rank] > 0 && signals.at[rank] <= step) ? 1 : 0;
        });
        for (std::size_t rank = 0; rank < answers.size(); ++rank) {
          if (answers[rank] != answers[0])
            reject("after step {} rank {} {}, and rank 0 {}: the next collective of those who go on never ends", step, rank,
                   answers[rank] ? "stops" : "goes on", answers[0] ? "stops" : "goes on");
        }
        if (answers[0] && step < right) reject("all stop after step {}, and no rank was signalled yet", step);
        if (!answers[0] && step == right) reject("all go on after step {}, in which a rank was signalled", step);
        if (traffic.messages_in_turn > 2 * rounds)
          reject("{} messages wait for each other, in each step: {} ranks need {} at most", traffic.messages_in_turn, ranks,
                 2 * rounds);
      }
    }
  }
}

// 10.6
struct MadeStarts {
  const char* story;
  std::vector<JobStart> starts;
  int most;
  Retry right;
};

const std::vector<MadeStarts>& made_starts() {
  const JobStart idle{12, 50, 50, true};  // a node was lost before anything was saved
  static const std::vector<MadeStarts> kMade{
      {"it is done", {{0, 0, 100, false}}, 5, {training_done, 0}},
      {"stopped by a signal, after saving", {{9, 0, 50, false}}, 5, {start_again, 0}},
      {"a rank was lost", {{9, 0, 50, false}, {12, 50, 60, false}}, 5, {start_again, 0}},
      {"the run file is wrong", {{3, 0, 0, false}}, 5, {give_up, 0}},
      {"the loss is NaN, after a checkpoint", {{8, 0, 50, false}}, 5, {give_up, 0}},
      {"killed: out of memory", {{137, 0, 0, false}}, 5, {give_up, 0}},
      {"killed, after it had saved", {{137, 0, 40, false}}, 5, {start_again, 0}},
      {"a crash, after it had saved", {{139, 0, 40, false}}, 5, {start_again, 0}},
      {"Ctrl-C, after it had saved", {{130, 0, 40, false}}, 5, {give_up, 0}},
      {"the fifth of five starts",
       {{9, 0, 10, false}, {9, 10, 20, false}, {9, 20, 30, false}, {9, 30, 40, false}, {9, 40, 50, false}},
       5,
       {give_up, 0}},
      {"the fourth of five",
       {{9, 0, 10, false}, {9, 10, 20, false}, {9, 20, 30, false}, {9, 30, 40, false}},
       5,
       {start_again, 0}},
      {"a rank was lost, and nothing new was saved", {{9, 0, 50, false}, {12, 50, 50, false}}, 5, {give_up, 0}},
      {"a node was lost, and nothing new was saved", {{9, 0, 50, false}, idle}, 5, {start_again, 20}},
      {"a node was lost twice before a save", {{9, 0, 50, false}, idle, idle}, 9, {start_again, 40}},
      {"three times", {{9, 0, 50, false}, idle, idle, idle}, 9, {start_again, 80}},
      {"eight times", {idle, idle, idle, idle, idle, idle, idle, idle}, 99, {start_again, 600}},
      {"twice, with a save between", {idle, {9, 50, 60, false}, {9, 60, 60, true}}, 9, {start_again, 20}},
      {"a node was lost, after it had saved", {idle, {12, 50, 60, true}}, 9, {start_again, 0}},
      {"a mistake, and a node was lost", {{2, 0, 0, true}}, 9, {give_up, 0}},
      {"no start is allowed", {{9, 0, 50, false}}, 1, {give_up, 0}},
      {"done in the last start", {{9, 0, 50, false}, {0, 50, 100, false}}, 2, {training_done, 0}}};
  return kMade;
}

const char* name_of(NextStart next) {
  return next == training_done ? "training_done" : next == start_again ? "start_again" : "give_up";
}

void grade_retry(const Library& library, Grading& grading) {
  auto* decide = library.function<Retry(std::span<const JobStart>, int)>("retry_or_give_up");
  for (const MadeStarts& made : made_starts()) {
    grading.begin(fmt::format("{} (exit code {}, from step {}, saved {}, start {} of {})", made.story,
                              made.starts.back().exit_code, made.starts.back().began_at, made.starts.back().saved_step,
                              made.starts.size(), made.most));
    const Retry found = decide(made.starts, made.most);
    if (found.next != made.right.next) reject("it says {}, not {}", name_of(found.next), name_of(made.right.next));
    if (found.wait_seconds != made.right.wait_seconds)
      reject("it waits {:g} s, not {:g} s", found.wait_seconds, made.right.wait_seconds);
  }
}

constexpr double kDay = 86400.0;

}  // namespace

const Lab& lab() {
  static const Lab kLab{
      .number = 10,
      .folder = "10_operations",
      .title = "Operations",
      .minutes = 120,
      .run_file = "",
      .ranks = 4,
      .exercises = {{"find_stuck_ranks", "who is missing, who calls something else", grade_stuck},
                    {"first_nonfinite", "where the first NaN came from", grade_nonfinite},
                    {"find_straggler", "the slow rank, by median and MAD", grade_straggler},
                    {"checkpoint_interval", "how often to save: Young, Daly, goodput", grade_interval},
                    {"stop_in_time", "all ranks stop at the same step", grade_stop},
                    {"retry_or_give_up", "start again, or not", grade_retry}},
      .questions = {{"q1", [] { return 5.0 * 365.0 * 24.0 / 1000.0; }},
                    {"q2", [] { return young_of(60.0, 5.0 * 365.0 * kDay / 1000.0) / 60.0; }},
                    {"q3", [] { return 100.0 * goodput_of(daly_of(60.0, 157680.0), 60.0, 600.0, 157680.0); }, 0.002},
                    {"q4", [] { return 7.0 / std::sqrt(8.0); }},
                    {"q5", [] { return 512.0 * 600.0 / 3600.0; }}}};
  return kLab;
}

}  // namespace cohort::labs::lab10_operations
