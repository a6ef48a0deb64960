// Lab 10: operations. Which rank is stuck, where did the first NaN come from, who is slow, how often to save, when to stop, and
// whether to start again.
#pragma once

#include <cohort/lab.hpp>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

extern "C" {

/// What one rank says of the last collective that it has entered, in a group whose ranks all enter the same ones in one order.
struct LastCollective {
  long long number;       // the first is 1; 0: none was entered
  std::string_view name;  // "all_reduce"
  long long elements;
  bool returned;  // it has come out again
};
enum HangKind {
  no_hang,   // all are in step, and not all are inside: the last ones come out, or the first ones have not come yet
  missing,   // some ranks have not entered what others wait in
  mismatch,  // ranks have entered different collectives as their number-th
  transport  // all are inside the same one, and none comes out: the network or the library
};
struct Hang {
  HangKind kind;
  long long number;  // of the collective: what the missing ranks have not entered; in which they differ; in which all are; else 0
  std::vector<int> ranks;  // ascending: those who are missing; those whose collective differs from that of most; else empty
};
/// 10.1: what a watchdog concludes when nothing moves, from the last collective of ranks 0, 1, ... (at least one). A mismatch
/// (two ranks with the same number of which name or elements differ) is reported before all else, the one of the lowest number.
/// Where no collective of that number has most ranks, all of its ranks are named. Missing are the ranks with the lowest number;
/// what they have not entered is the next one. Ranks between them and the foremost wait for them, and are no cause.
void find_stuck_ranks(std::span<const LastCollective> ranks, Hang& hang);

/// Values that were looked at in a run: of one tensor, on one rank.
struct SeenTensor {
  long long step;
  int order;  // in the step: what has the smaller number was computed earlier, on each rank
  int rank;
  std::span<const float> values;
};
struct FirstNonfinite {
  std::size_t tensor;   // its number in the list
  std::size_t element;  // of this tensor
};
/// 10.2: where the first value came up that is infinite or not a number. The earliest step counts, in it the smallest order, of
/// ranks that have it there the lowest, of its elements the first. The list is in any order. False, and `first` as it was, if all
/// are finite.
bool first_nonfinite(std::span<const SeenTensor> seen, FirstNonfinite& first);

struct Straggler {
  int rank;      // -1: none
  double own;    // median over the steps of this rank's seconds; 0 if none
  double usual;  // median over the ranks of their medians
};
/// 10.3: the rank that is slow, if one is. seconds[rank * steps + s] is its own work in step s; at least one rank and one step.
/// Each rank counts by the median of its steps, since one long step (a save, a page fault) makes no straggler. Of these medians
/// the largest is slow if it is above the ranks' median by more than 5 times 1.4826 times their median absolute deviation (MAD),
/// and by more than a tenth of the ranks' median. Of ranks that are equally slow the lowest. The median of an even number is the
/// mean of the middle two.
Straggler find_straggler(std::span<const double> seconds, std::size_t steps);

struct CheckpointInterval {
  double young;  // seconds of training between two saves
  double daly;
  double goodput;  // with Daly's: the share of the time in which steps are done that are never lost; 0 to 1
};
/// 10.4: how often to save. `save` seconds for a checkpoint (training waits), `restart` seconds from a failure to the first step,
/// and nodes that each fail once in `node_mtbf` seconds, on average and independently: the job fails once in M = node_mtbf /
/// nodes. Young: sqrt(2 save M). Daly: with x = save / (2 M), sqrt(2 save M) (1 + sqrt(x) / 3 + x / 9) - save if save < 2 M, else
/// M. Expected time for T seconds of training with interval t (Daly's complete model): M exp(restart / M) (exp((t + save) / M) -
/// 1) T / t.
CheckpointInterval checkpoint_interval(double save, double restart, double node_mtbf, int nodes);

/// 10.5: all ranks call it at the end of each step; `signalled`: this rank has got the signal to stop, in this step or before.
/// True on all ranks, at the first step at whose end any rank has been signalled; else false on all. In at most 2 ceil(log2 n)
/// messages one after the other, of one element at most.
bool stop_in_time(cohort::lab::Link& link, bool signalled);

/// How one start of a training ended.
struct JobStart {
  int exit_code;       // 0: done. 9: stopped by a signal, after saving. 12: a rank was lost or stuck. 128 + s: ended by signal s
  long long began_at;  // the step that it resumed from
  long long saved_step;  // of its newest checkpoint at its end
  bool node_lost;        // SLURM says that a node failed, or wanted the nodes back
};
enum NextStart { training_done, start_again, give_up };
struct Retry {
  NextStart next;
  double wait_seconds;  // before the start; 0 unless start_again
};
/// 10.6: what to do after the last of these starts, oldest first, at least one. 0: done. Started again is after 9, 12, and from
/// 128 on (but not 130, Ctrl-C: a person); every other code is a mistake that would only repeat. Not if there were `most` starts
/// already. Not if the last start has saved nothing new, unless a node was lost. The wait: 20 s times 2 to the number of starts
/// before the last one that saved nothing new in a row up to it, at most 600 s; 0 if the last start has saved something new.
Retry retry_or_give_up(std::span<const JobStart> starts, int most);
}
