// Lab 9: checkpoints. What is in one, how a crash cannot spoil it, and how it gets from one layout into another.
#pragma once

#include <bit>
#include <cohort/lab.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::lab {

/// A folder on a disk, as an operating system gives it. What is written is in memory at first. When the machine loses power:
///  - of a file whose content was not flushed since it was written, what is there may be the content of its last flush (none: an
///    empty file), half of the new one, or all of it;
///  - of the names that were made, renamed and removed since the folder was last flushed, any may have reached the disk, and any
///  not,
///    whatever their order was.
class DiskFolder {
 public:
  virtual ~DiskFolder() = default;
  /// Makes a file, or replaces the content of the one that has this name: as open() with O_TRUNC, write(), close().
  virtual void write(const std::string& name, std::string_view content) = 0;
  /// Content of this file to disk: fsync() of the file. Its name need not be there after a crash.
  virtual void flush(const std::string& name) = 0;
  /// Names to disk: fsync() of the folder.
  virtual void flush_names() = 0;
  /// Gives a file another name. A file that had that name is replaced: after a crash either the one or the other has it, never
  /// none.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& name) = 0;
  virtual std::vector<std::string> names() = 0;
  virtual bool exists(const std::string& name) = 0;
  /// Throws std::runtime_error if there is no such file.
  virtual std::string read(const std::string& name) = 0;
};

/// To the nearest bf16, ties to even; for finite values.
inline float round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);  // to nearest, ties to even
  return std::bit_cast<float>(rounded & 0xFFFF0000U);
}

}  // namespace cohort::lab

extern "C" {

/// 9.1: saves a checkpoint, part k of which is what rank k has to keep: any bytes, also none. The number of parts may be another
/// one than that of the checkpoint before. Whenever the machine loses power, load_newest finds the checkpoint before or the new
/// one, whole, and later saves work as ever. When the function returns, the new one is safe, and the folder has no files but its
/// own: what belonged to the one before, or to a save that was cut short, is gone. A part is written by itself (each rank writes
/// its own): a write has at most as many bytes as the longest part and 4,096 more. You choose the names.
void save_atomically(cohort::lab::DiskFolder& folder, std::span<const std::string> parts);
/// The newest checkpoint that is whole. False, and `parts` as it was, if there is none.
bool load_newest(cohort::lab::DiskFolder& folder, std::vector<std::string>& parts);

/// A small trainer: AdamW on bf16 weights with an fp32 copy, dropout, a dynamic loss scale, a schedule of the learning rate.
struct SmallTrainer {
  std::vector<float> master;     // the weights that AdamW steps
  std::vector<float> working;    // what forward reads: master, rounded to bf16; made anew at the end of each step
  std::vector<float> gradients;  // cleared at the beginning of each step
  std::vector<float> first;      // AdamW's moments
  std::vector<float> second;
  std::int64_t step = 0;       // steps done: AdamW's bias correction and the schedule count by it
  std::uint64_t random = 0;    // of the generator that dropout draws from: its whole state
  std::uint64_t position = 0;  // the next sample of the data
  double loss_scale = 0.0;
  int steps_since_overflow = 0;  // after a number of them the loss scale doubles
  double learning_rate = 0.0;    // of the step that runs: a function of `step`
};
/// 9.2: all that the trainer needs to continue bit for bit, as bytes, and no more than that: what the next step computes anew, or
/// what follows from the rest, is not in it (256 bytes over are allowed).
void save_checkpoint(const SmallTrainer& trainer, std::vector<std::byte>& bytes);
/// Into a trainer that was just made: its vectors have their sizes, and all else is as at the start of a training. Afterwards it
/// is as after the step that was saved: `working` (round_to_bf16) and `learning_rate`, which is 3e-3 / (1 + step / 100.0), as
/// well; `gradients` need not be. False, and the trainer as it was, if the bytes are not a whole checkpoint of a trainer of this
/// size: cut off, longer, or of another model.
bool load_checkpoint(std::span<const std::byte> bytes, SmallTrainer& trainer);

/// 9.3: the whole model on rank 0, from shards: shard r is on rank r, and has sizes[r] elements, which may be none. They follow
/// each other. `whole` has room for all on rank 0, and is empty elsewhere. No rank but 0 receives anything: it would need the
/// memory for it.
void gather_sharded(cohort::lab::Link& link, std::span<const float> shard, std::span<const std::size_t> sizes,
                    std::span<float> whole);

struct ShardMove {
  std::size_t from;      // rank that has the elements, in the old layout
  std::size_t to;        // rank that gets them, in the new layout
  std::size_t begin;     // the first one's number, of all elements of the model
  std::size_t elements;  // > 0
};
/// 9.4: which elements go from whom to whom, when shards of old_sizes become shards of new_sizes (both in order of the ranks,
/// both with the same sum, some perhaps 0). Moves are in order of their elements, as few as possible; what stays on a rank of the
/// same number is a move, too. `moves` is empty at first.
void reshard_plan(std::span<const std::size_t> old_sizes, std::span<const std::size_t> new_sizes, std::vector<ShardMove>& moves);

struct SavedCheckpoint {
  std::int64_t step;
  bool whole;              // false: damaged, or a save that is under way
  double validation_loss;  // NaN: was not measured
};
struct RetentionRule {
  int last;            // so many of the newest; 0: all
  std::int64_t every;  // and those whose step is a multiple of this; 0: none besides
  bool best;           // and the one of the least validation loss, of equal ones the newest
};
/// 9.5: the steps of the checkpoints that may be deleted, ascending. `saved` is in any order. One that is not whole is not
/// counted and not deleted: perhaps somebody can save something of it. `deleted` is empty at first.
void keep_last(std::span<const SavedCheckpoint> saved, const RetentionRule& retention, std::vector<std::int64_t>& deleted);
}
