// Where the state slots of an offloaded optimizer lie: in memory of the host, or in a scratch file through which they are
// streamed block by block. A block that is at work has a lane, with memory of its own in the latter case; several lanes let one
// block be read and another be written while a third is computed.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "optim/optimizer.hpp"

namespace cohort {

/// Elements [begin, end) of a run (Optimizer::runs).
struct ElementBlock {
  std::size_t run;
  Count begin, end;
};

/// Blocks at work at once: one is read, one computed, one written.
inline constexpr std::size_t kLanes = 3;

/// A run as its slots see it.
struct SlotRun {
  Count elements;
  std::vector<SlotSpec> slots;
};

class SlotStore {
 public:
  virtual ~SlotStore() = default;
  /// Starts to bring the slots of a block in. The lane's last block must have been finished.
  virtual void fetch(std::size_t lane, const ElementBlock& block) = 0;
  /// Waits for them: each [end - begin], on the host. They are changed in place.
  virtual std::vector<Tensor> fetched(std::size_t lane) = 0;
  /// Starts to put them back where they came from.
  virtual void put_back(std::size_t lane) = 0;
  /// Waits until they are there; at once if the lane has nothing under way. A failed read or write shows in one of the waits, as
  /// Error(io).
  virtual void finish(std::size_t lane) = 0;
  /// All slots of a run, for checkpoints.
  virtual std::vector<StateElements> of_run(std::size_t run) const = 0;
};

/// Slots of zeros, in memory.
std::unique_ptr<SlotStore> make_slots_in_memory(const std::vector<SlotRun>& runs);
/// The same in a scratch file: the first slot of all runs, then the second of all, and so on. Blocks are of `block_elements` at
/// most. Throws Error(io) if the file cannot be made.
std::unique_ptr<SlotStore> make_slots_in_file(const std::vector<SlotRun>& runs, Count block_elements,
                                              const std::filesystem::path& file);

}  // namespace cohort
