// The part of the model that one rank holds: its layers (pp) and of their matrices its part (tp).
#pragma once

#include <memory>

#include "config/run_config.hpp"
#include "models/model.hpp"

namespace cohort {

/// Declared, without memory. `config` is validated and its vocabulary known; `stage` is the rank's place on the axis pp, and
/// `parallel`, which must outlive the model, says what of tp. With parallel.pp > 1 it is a Decoder.
std::unique_ptr<Model> declare_model_of_rank(const RunConfig& config, int stage, TensorParallel& parallel);

}  // namespace cohort
