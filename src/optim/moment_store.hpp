// Where the moments of an offloaded optimizer lie: in memory of the host, or in a scratch file through which they are streamed
// block by block. A block that is at work has a lane, with memory of its own in the latter case; several lanes let one block be
// read and another be written while a third is computed.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "optim/optimizer.hpp"

namespace cohort {

/// Elements [begin, end) of a segment.
struct ElementBlock {
  std::size_t segment;
  Count begin, end;
};

/// Blocks at work at once: one is read, one computed, one written.
inline constexpr std::size_t kLanes = 3;

class MomentStore {
 public:
  struct BlockMoments {
    Tensor m, v;  // [end - begin], on the host
  };

  virtual ~MomentStore() = default;
  /// Starts to bring the moments of a block in. The lane's last block must have been finished.
  virtual void fetch(std::size_t lane, const ElementBlock& block) = 0;
  /// Waits for them. They are changed in place.
  virtual BlockMoments fetched(std::size_t lane) = 0;
  /// Starts to put them back where they came from.
  virtual void put_back(std::size_t lane) = 0;
  /// Waits until they are there; at once if the lane has nothing under way. A failed read or write shows in one of the waits, as
  /// Error(io).
  virtual void finish(std::size_t lane) = 0;
  /// All moments of a segment, for checkpoints.
  virtual Optimizer::Moments of_segment(std::size_t segment) const = 0;
};

/// Zero moments for segments of these many elements, in memory.
std::unique_ptr<MomentStore> make_moments_in_memory(const std::vector<Count>& segments);
/// The same in a scratch file: m of all segments, then v of all. Blocks are of `block_elements` at most. Throws Error(io) if the
/// file cannot be made.
std::unique_ptr<MomentStore> make_moments_in_file(const std::vector<Count>& segments, Count block_elements,
                                                  const std::filesystem::path& file);

}  // namespace cohort
