// How often to save, and how much of the time of a long job becomes training.
//
// A job of N ranks fails N times as often as one rank: every M seconds in the mean, independently of what went before. Each time
// it loses what it did since it last saved, and R seconds until it makes steps again. Saving takes D seconds. Saving every
// sqrt(2 D M) seconds loses least, to first order (Young 1974, "A first order approximation to the optimum checkpoint interval");
// Daly 2006 ("A higher order estimate of the optimum checkpoint interval for restart dumps", equations 20 and 37) has the next
// orders and the time that the job then takes, which are used here.
#pragma once

namespace cohort {

struct Failures {
  double rank_seconds = 0.0;     // of one rank between failures that end the job
  double save_seconds = 0.0;     // D
  double restart_seconds = 0.0;  // R
};

struct Goodput {
  double failure_seconds = 0.0;   // M, of the job
  double interval_seconds = 0.0;  // of training between two saves
  double share = 0.0;             // of the job's time that becomes training
};

Goodput best_goodput(int ranks, const Failures& failures);
/// The share if the job saves after so many seconds of training.
double goodput_share(double failure_seconds, double interval_seconds, const Failures& failures);

}  // namespace cohort
