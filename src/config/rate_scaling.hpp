// The learning rate of another batch. With k = train.global_batch / optimizer.rate_batch, the peak rate of a run is
//   linear   k optimizer.learning_rate: k times as many samples point the way k times as surely (Krizhevsky 2014, "One weird
//   trick
//            for parallelizing convolutional neural networks"; Goyal et al. 2017, "Accurate, Large Minibatch SGD"). For SGD with
//            momentum; with a warm-up, and up to a batch beyond which no rate helps (McCandlish et al. 2018)
//   sqrt     sqrt(k) optimizer.learning_rate, which keeps the variance of an update (Krizhevsky 2014; Hoffer et al. 2017, "Train
//            longer, generalize better"). For optimizers that divide by the root of the second moment, such as AdamW (Malladi et
//            al. 2022, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms", whose rule also lets beta1 and beta2
//            forget k times as fast; they stay as they are set here)
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// What schedules rise to. optimizer.learning_rate itself without scaling. `config` is validated.
double peak_learning_rate(const RunConfig& config);

/// "0.004 = 0.001 x 4 (linear: train.global_batch 512 / optimizer.rate_batch 128)"; "" without scaling.
std::string scaled_rate_in_words(const RunConfig& config);

}  // namespace cohort
