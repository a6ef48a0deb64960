// The schedules that the tests of the pipeline go through.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "parallel/pipeline/pipeline_schedule.hpp"

namespace cohort::test {

/// S in 1..8, M in 1..17, V in 1..4, as far as the kinds have them; interleaved with M = S, 2 S and so on up to 4 S.
inline void for_each_schedule(const std::function<void(const pipeline::Schedule&)>& work) {
  using pipeline::ScheduleKind;
  const auto visit = [&](const pipeline::Schedule& schedule) {
    SCOPED_TRACE(::testing::Message() << name_of(schedule.kind) << ", S " << schedule.stages << ", V " << schedule.chunks
                                      << ", M " << schedule.micro_batches);
    work(schedule);
  };
  for (int stages = 1; stages <= 8; ++stages) {
    for (int micro_batches = 1; micro_batches <= 17; ++micro_batches) {
      visit({ScheduleKind::gpipe, stages, 1, micro_batches});
      visit({ScheduleKind::one_f_one_b, stages, 1, micro_batches});
    }
    for (int chunks = 2; chunks <= 4; ++chunks) {
      for (int groups = 1; groups <= 4; ++groups) visit({ScheduleKind::interleaved, stages, chunks, groups * stages});
    }
  }
}

}  // namespace cohort::test
