// How HDF5 files and datasets are laid out, and the sizes in which their data moves.
#pragma once

#include <string>
#include <vector>

#include "base/box.hpp"
#include "base/units.hpp"

namespace cohort::hdf5 {

/// The most that a read or write moves in one turn (chunked datasets: rounded to whole chunks).
inline constexpr Bytes kSlabBytes = 8 * kMiB;
/// The most that one round of a collective write moves for each rank.
inline constexpr Bytes kRoundBytes = 64 * kMiB;
/// The largest chunk of a dataset: each open dataset keeps one chunk that was read or written in part.
inline constexpr Bytes kLargestChunk = 16 * kMiB;

/// How a file is laid out and opened. Byte sizes are not negative, else Error(config).
struct FileOptions {
  /// Datasets and other objects of at least this size start at a multiple of it (Lustre: the stripe size). 0: no alignment.
  Bytes alignment = 0;
  /// Take flock() on the file for as long as it is open, exclusive for writing and shared for reading, and throw Error(io) if
  /// another process holds it. Serial files only, else Error(config). The environment variable HDF5_USE_FILE_LOCKING overrides
  /// it: HDF5 looks there first.
  bool locking = false;
  /// Hints to MPI-IO for parallel files that are created on a striped file system: over how many targets, and in pieces of how
  /// many bytes. 0: as the folder says. Serial files only take what the folder says.
  int stripe_count = 0;
  Bytes stripe_size = 0;
  /// Creates the file in HDF5's 1.10 format, which virtual datasets need. A writer killed while it is open leaves a file that
  /// HDF5 refuses to open.
  bool virtual_datasets = false;
};

/// How a dataset is stored. Unfit values throw Error(config).
struct DatasetLayout {
  /// 0: contiguous. Else the size of a chunk, at most kLargestChunk: whole rows of the slowest dims, as many as fit, at least one
  /// element. Scalars and empty datasets are contiguous in any case.
  Bytes chunk = 0;
  /// gzip level 1 to 9 after the shuffle filter (bytes of equal weight side by side); 0: not compressed. Needs chunks. Serial
  /// files only.
  int compression = 0;
};

/// A piece of a virtual dataset: these elements of the whole are those of the dataset `dataset` of the file `file`, in order.
/// Without elements it is skipped.
struct VirtualPart {
  TensorPart part;
  std::string file;     // relative to the folder of the file that holds the virtual dataset; without '%', which HDF5 expands
  std::string dataset;  // absolute name
  bool flat = true;     // stored with the shape [elements]; false: with the shape of its box, all of which it is
};

}  // namespace cohort::hdf5
