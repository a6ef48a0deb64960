// Lab 10: operations. What each function has to do is in <cohort/lab10_operations.hpp>.
//
//   cohort lab show 10       the handout        cohort lab check 10      are they right?
//   cohort lab hint 10.1     a hint             cohort lab ask 10        questions
#include <cohort/lab10_operations.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;
using cohort::lab::not_written;

// 10.1
void find_stuck_ranks(std::span<const LastCollective> ranks, Hang& hang) {
  (void)ranks, (void)hang;
  not_written();
}

// 10.2
bool first_nonfinite(std::span<const SeenTensor> seen, FirstNonfinite& first) {
  (void)seen, (void)first;
  not_written();
}

// 10.3
Straggler find_straggler(std::span<const double> seconds, std::size_t steps) {
  (void)seconds, (void)steps;
  not_written();
}

// 10.4
CheckpointInterval checkpoint_interval(double save, double restart, double node_mtbf, int nodes) {
  (void)save, (void)restart, (void)node_mtbf, (void)nodes;
  not_written();
}

// 10.5
bool stop_in_time(Link& link, bool signalled) {
  (void)link, (void)signalled;
  not_written();
}

// 10.6
Retry retry_or_give_up(std::span<const JobStart> starts, int most) {
  (void)starts, (void)most;
  not_written();
}
