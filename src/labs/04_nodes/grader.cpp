// Lab 4: names as scontrol expands them, places as srun gives them, a barrier that is proved by what each rank has heard, and the
// arithmetic of a job's time limit.
#include <algorithm>
#include <bit>
#include <cohort/lab04_nodes.hpp>
#include <span>
#include <vector>

#include "base/text.hpp"
#include "labs/04_nodes/heard_link.hpp"
#include "labs/grading/ranks.hpp"
#include "labs/labs.hpp"

namespace cohort::labs::lab04_nodes {
namespace {

// 4.1. What `scontrol show hostnames` prints.
struct NodeList {
  std::string list;
  std::vector<std::string> names;
};

const std::vector<NodeList>& node_lists() {
  static const std::vector<NodeList> kLists{
      {"node1", {"node1"}},
      {"", {}},
      {"a,b", {"a", "b"}},
      {"node[1-3]", {"node1", "node2", "node3"}},
      {"n[8-11]", {"n8", "n9", "n10", "n11"}},
      {"n[08-11]", {"n08", "n09", "n10", "n11"}},
      {"n[01-03,7],gpu2", {"n01", "n02", "n03", "n7", "gpu2"}},
      {"n[098-101]", {"n098", "n099", "n100", "n101"}},
      {"login,n[3,1],n[5-6]", {"login", "n3", "n1", "n5", "n6"}},
      {"gpu-a100-[001,010-011],cpu7,x[0-1]", {"gpu-a100-001", "gpu-a100-010", "gpu-a100-011", "cpu7", "x0", "x1"}},
      {"[1-2]", {"1", "2"}}};
  return kLists;
}

// "007" and "7": the mistake has a name.
bool same_but_for_zeros(const std::string& a, const std::string& b) {
  const auto without = [](std::string name) {
    for (std::size_t i = 0; i < name.size();) {
      const bool leads = name[i] == '0' && (i == 0 || !std::isdigit(static_cast<unsigned char>(name[i - 1])));
      if (leads && i + 1 < name.size()) {
        name.erase(i, 1);
      } else {
        ++i;
      }
    }
    return name;
  };
  return a != b && without(a) == without(b);
}

void grade_node_list(const Library& library, Grading& grading) {
  auto* expand = library.function<void(std::string_view, std::vector<std::string>&)>("expand_node_list");
  for (const NodeList& one : node_lists()) {
    grading.begin(fmt::format("\"{}\"", one.list));
    std::vector<std::string> names;
    expand(one.list, names);
    for (std::size_t i = 0; i < std::min(names.size(), one.names.size()); ++i) {
      if (names[i] == one.names[i]) continue;
      if (same_but_for_zeros(names[i], one.names[i]))
        reject("name {} is \"{}\", but the node is called \"{}\": a range has at least as many digits as its first number", i,
               names[i], one.names[i]);
      reject("name {} is \"{}\", not \"{}\"", i, names[i], one.names[i]);
    }
    if (names.size() != one.names.size())
      reject("{}, but it stands for {}: \"{}\" is {}", counted(static_cast<Count>(names.size()), "name"), one.names.size(),
             names.size() < one.names.size() ? one.names[names.size()] : names[one.names.size()],
             names.size() < one.names.size() ? "missing" : "not one of them");
  }
}

// 4.2. Another way than the obvious one: each place follows from the round in which the node's i-th rank is handed out.
std::vector<RankPlace> expected_places(const std::vector<int>& tasks, RankDistribution distribution, int plane) {
  struct Turn {
    int round, node, local_rank;
  };
  std::vector<Turn> turns;
  for (int node = 0; node < static_cast<int>(tasks.size()); ++node) {
    for (int i = 0; i < tasks[static_cast<std::size_t>(node)]; ++i) {
      const int round = distribution == block_distribution ? 0 : i / (distribution == cyclic_distribution ? 1 : plane);
      turns.push_back({round, node, i});
    }
  }
  std::stable_sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) { return a.round < b.round; });
  std::vector<RankPlace> places;
  for (const Turn& turn : turns) places.push_back({turn.node, turn.local_rank});
  return places;
}

std::string name_of(RankDistribution distribution, int plane) {
  return distribution == block_distribution    ? "block"
         : distribution == cyclic_distribution ? "cyclic"
                                               : fmt::format("plane={}", plane);
}

void grade_places(const Library& library, Grading& grading) {
  auto* place = library.function<void(std::span<const int>, RankDistribution, int, std::span<RankPlace>)>("place_ranks");
  const std::vector<std::pair<RankDistribution, int>> ways{
      {block_distribution, 1},  {cyclic_distribution, 1}, {plane_distribution, 2}, {plane_distribution, 3},
      {cyclic_distribution, 5}, {block_distribution, 2},  {plane_distribution, 1}, {plane_distribution, 99}};
  for (const std::vector<int>& tasks :
       {std::vector{2, 2}, {4, 4, 4}, {1}, {2, 2, 2, 1}, {3, 1, 2}, {0, 2, 3}, {5, 0, 0, 1}, {8, 8, 8, 8, 8}, {}}) {
    for (const auto& [distribution, plane] : ways) {
      std::vector<std::string> words;
      for (const int count : tasks) words.push_back(std::to_string(count));
      grading.begin(fmt::format("{}, nodes for {} ranks", name_of(distribution, plane), tasks.empty() ? "no" : join(words)));
      const std::vector<RankPlace> expected = expected_places(tasks, distribution, plane);
      std::vector<RankPlace> places(expected.size() + 1, RankPlace{-7, -7});
      place(tasks, distribution, plane, std::span(places).first(expected.size()));
      if (places.back().node != -7 || places.back().local_rank != -7)
        reject("a place is written for rank {}, but there are {} ranks", expected.size(), expected.size());
      for (std::size_t rank = 0; rank < expected.size(); ++rank) {
        const auto [node, local_rank] = places[rank];
        if (node == -7) reject("rank {} has no place", rank);
        if (node != expected[rank].node) reject("rank {} is put on node {}, not {}", rank, node, expected[rank].node);
        if (local_rank != expected[rank].local_rank)
          reject("rank {} is on node {}, where it is local rank {}, not {}: local ranks count the ranks of their node", rank,
                 node, expected[rank].local_rank, local_rank);
      }
    }
  }
}

// 4.3
void check_heard(const Heard& heard, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (int other = 0; other < ranks; ++other) {
      if (heard.has(rank, other)) continue;
      reject("rank {} leaves, although no message has told it, directly or through others, that rank {} has entered", rank,
             other);
    }
  }
}

void grade_barrier(const Library& library, Grading& grading) {
  auto* barrier = library.function<void(lab::Link&)>("barrier");
  for (const int ranks : {2, 1, 4, 3, 5, 8, 6, 7, 13, 16}) {
    grading.begin(counted(ranks, "rank"));
    const int rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
    Heard first(ranks), second(ranks);  // of two barriers in a row: the messages of one must not serve the other
    const Traffic traffic = run_ranks(ranks, [&](lab::Link& link) {
      for (Heard* heard : {&first, &second}) {
        HeardLink hearing(link, *heard);
        heard->enter(link.rank());
        barrier(hearing);
        if (hearing.longest() > 1)
          reject("rank {} sends {} elements: that a message comes says enough", link.rank(), hearing.longest());
      }
    });
    check_heard(first, ranks);
    check_heard(second, ranks);
    if (traffic.messages_in_turn > 2 * rounds)
      reject("{} messages wait for each other in two barriers: {} need {} each, so {}", traffic.messages_in_turn,
             counted(ranks, "rank"), counted(rounds, "round"), 2 * rounds);
    for (int rank = 0; rank < ranks; ++rank) {
      const Count sent = traffic.messages_sent[static_cast<std::size_t>(rank)];
      if (sent > 2 * rounds)
        reject("rank {} sends {} messages in two barriers: one in each of {} is enough", rank, sent, counted(rounds, "round"));
    }
  }
}

// 4.4. Counted step by step, as a clock would see it.
JobPlan expected_plan(const JobRequest& job) {
  JobPlan plan{};
  while (plan.nodes * job.ranks_per_node < job.ranks) ++plan.nodes;
  while (static_cast<double>(plan.signal_seconds) < 2.0 * job.step_seconds + job.save_seconds) ++plan.signal_seconds;
  const double signal = job.limit_seconds - static_cast<double>(plan.signal_seconds);
  if (signal <= job.start_seconds) return plan;
  long long steps = 0;
  while (job.start_seconds + static_cast<double>(steps) * job.step_seconds < signal) ++steps;
  plan.steps_in_job = steps + 1;
  while (plan.jobs * plan.steps_in_job < job.steps) ++plan.jobs;
  return plan;
}

void check_plan(const JobRequest& job, const JobPlan& found) {
  const JobPlan right = expected_plan(job);
  if (found.nodes != right.nodes)
    reject("{}, but {} are needed for {} ranks of which a node holds {}", counted(found.nodes, "node"), right.nodes, job.ranks,
           job.ranks_per_node);
  if (found.signal_seconds != right.signal_seconds)
    reject("the signal comes {} s before the end{}: two steps and a save take {:g} s", found.signal_seconds,
           found.signal_seconds < right.signal_seconds ? ", too late" : ", earlier than it must",
           2.0 * job.step_seconds + job.save_seconds);
  if (right.steps_in_job == 0 && found.steps_in_job != 0)
    reject("{} steps in a job whose signal comes before its first step has begun", found.steps_in_job);
  const double end = job.start_seconds + static_cast<double>(found.steps_in_job) * job.step_seconds + job.save_seconds;
  if (found.steps_in_job != right.steps_in_job)
    reject("a job does {} steps, so that its save would end after {:g} s; {}", found.steps_in_job, end,
           end > job.limit_seconds                        ? fmt::format("it is killed after {:g} s", job.limit_seconds)
           : found.steps_in_job == right.steps_in_job - 1 ? "the step in which they agree is done and saved, too"
                                                          : "the signal comes in another step");
  if (found.jobs != right.jobs)
    reject("{} of {} steps for {} steps, not {}", counted(found.jobs, "job"), found.steps_in_job, job.steps, right.jobs);
}

void grade_plan(const Library& library, Grading& grading) {
  auto* plan = library.function<JobPlan(const JobRequest&)>("plan_job");
  // Seconds that are exact in binary: nothing here depends on rounding.
  const std::vector<JobRequest> jobs{
      {4, 2, 200, 600, 10, 1, 5},       {5, 4, 1000, 3600, 60, 2.5, 12.25}, {1, 8, 10, 3600, 30, 4, 20},
      {64, 8, 5000, 86400, 120, 8, 90}, {9, 8, 3000, 1000, 40.5, 0.25, 3},  {16, 16, 7, 300, 20, 100, 60},
      {16, 16, 7, 280, 20, 100, 60},    {8, 4, 84, 64, 10, 0.5, 11},        {8, 4, 85, 64, 10, 0.5, 11}};
  for (const JobRequest& job : jobs) {
    grading.begin(fmt::format("{} ranks, {} on a node, {} steps, limit {:g} s, start {:g} s, step {:g} s, save {:g} s", job.ranks,
                              job.ranks_per_node, job.steps, job.limit_seconds, job.start_seconds, job.step_seconds,
                              job.save_seconds));
    check_plan(job, plan(job));
  }
}

}  // namespace

const Lab& lab() {
  static const Lab kLab{.number = 4,
                        .folder = "04_nodes",
                        .title = "Nodes and SLURM",
                        .minutes = 90,
                        .run_file = "",
                        .ranks = 4,
                        .exercises = {{"expand_node_list", "names of the nodes, from SLURM's short form", grade_node_list},
                                      {"place_ranks", "block, cyclic and plane distribution", grade_places},
                                      {"barrier", "nobody leaves before all are there", grade_barrier},
                                      {"plan_job", "nodes, signal and steps of a job with a time limit", grade_plan}},
                        .questions = {{"q1", [] { return 3.0 * 8.0 + 5.0; }},
                                      {"q2", [] { return 4.0; }},
                                      {"q3", [] { return 32.0; }},
                                      {"q4", [] { return 10.0; }},
                                      {"q5", [] { return 2.0 * 12.0 + 90.0; }}}};
  return kLab;
}

}  // namespace cohort::labs::lab04_nodes
