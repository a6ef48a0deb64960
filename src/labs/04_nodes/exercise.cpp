// Lab 4: nodes and SLURM. What each function has to do is in <cohort/lab04_nodes.hpp>.
//
//   cohort lab show 4        the handout        cohort lab check 4       are they right?
//   cohort lab hint 4.1      a hint             cohort lab ask 4         questions
#include <cohort/lab04_nodes.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using cohort::lab::Link;
using cohort::lab::not_written;

// 4.1
void expand_node_list(std::string_view list, std::vector<std::string>& names) {
  (void)list, (void)names;
  not_written();
}

// 4.2
void place_ranks(std::span<const int> tasks_on_node, RankDistribution distribution, int plane, std::span<RankPlace> places) {
  (void)tasks_on_node, (void)distribution, (void)plane, (void)places;
  not_written();
}

// 4.3
void barrier(Link& link) {
  (void)link;
  not_written();
}

// 4.4
JobPlan plan_job(const JobRequest& request) {
  (void)request;
  not_written();
}
