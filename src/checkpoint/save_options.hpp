// How checkpoints are written. The run file's section [checkpoint] says it for a run.
#pragma once

#include <string>

#include "base/dtype.hpp"
#include "checkpoint/format/manifest.hpp"

namespace cohort {

/// What suits the file system.
struct StorageOptions {
  Bytes chunk = 0;          // size of the chunks of a dataset; 0: contiguous
  int compression = 0;      // gzip level 0 to 9, with the shuffle filter; needs chunks, and one writer of a file
  Bytes alignment = 0;      // datasets of at least this size begin at a multiple of it; 0: anywhere
  bool locking = false;     // lock files while writing: against other programs, where the file system can
  bool collective = false;  // consolidated: all ranks write the one file together (parallel HDF5); else rank 0 does
  int stripe_count = 0;     // of a collectively written file on Lustre and the like; 0: the folder's
  Bytes stripe_size = 0;
};

/// Which checkpoints stay.
struct Retention {
  Count keep = 0;          // the newest; 0: all
  Count keep_every = 0;    // besides those whose step is a multiple of it; 0: none
  bool keep_best = false;  // besides the one with the lowest validation loss
};

struct SaveOptions {
  bool alone = true;  // nobody else saves in this run: what killed saves left is cleared away. Else what those of this step left
  CheckpointForm form = CheckpointForm::consolidated;
  DType model_dtype = DType::f32;  // of /model: fp32, or rounded to bf16 or fp16 with fp32 copies in /optim/master
  StorageOptions storage = {};
  Retention retention = {};
  bool verify = false;         // read everything back and compare checksums before the checkpoint counts
  std::string on_commit = "";  // a command for the shell of rank 0 when a checkpoint is complete; "" for none
};

}  // namespace cohort
