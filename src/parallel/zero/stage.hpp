// Which of ZeRO's stages a run file asks for, for who writes down its published formulas.
#pragma once

#include <string_view>

namespace cohort {

/// 1, 2 or 3 if the strategy (parallel.data) is that stage of ZeRO: ranks then share the optimizer's state, from stage 2 on the
/// gradients, in stage 3 the weights (sharded.hpp). 0 for all others, which share nothing.
int zero_stage(std::string_view strategy);

}  // namespace cohort
