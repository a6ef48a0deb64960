// What [checkpoint] of a run file means for those who save.
#pragma once

#include "checkpoint/save_options.hpp"
#include "config/run_config.hpp"

namespace cohort {

/// The options of a run, with the defaults of its file system:
///
///   site     a consolidated file is written   alignment   stripes
///   local    by rank 0                        4 KiB
///   nfs      by rank 0: clients keep pages    none
///            of a file that several write
///   lustre   by all ranks, if HDF5 can        4 MiB       8 of 4 MiB
///
/// Throws Error(config) if collective writes are asked for and HDF5 was built without MPI.
SaveOptions save_options_of(const CheckpointSection& config);

}  // namespace cohort
