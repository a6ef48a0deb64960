// What a machine can do, for who predicts how long a step takes on it: how fast ranks are at each op, how fast links are. Either
// measured on the machine (calibrate.hpp), or estimated from a data sheet (datasheet_profile.cpp).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/counting_listener.hpp"
#include "base/device_kind.hpp"
#include "base/units.hpp"

namespace cohort {

/// One op at one size, as measured: an entry of a tape and its time.
struct OpSample {
  std::string op;
  OpKind kind = OpKind::pointwise;
  DType dtype = DType::f32;
  bool tf32 = false;
  Count m = 0, n = 0, k = 0;
  double flops = 0.0, bytes = 0.0;  // as in OpWork
  double seconds = 0.0;
  // Of an op on rows that was measured at several lengths of a row (n), and for each of them at the same number of sizes.
  bool grid = false;
};

/// One collective of so many bytes (as CommEvent counts them) over so many ranks, as measured.
struct CollectiveSample {
  std::string operation;  // "all_reduce", "reduce_scatter", "all_gather", "recv"
  int ranks = 1;
  int nodes = 1;
  Bytes bytes = 0;
  double seconds = 0.0;
};

/// What data sheets say, less what programs do not reach of it.
struct OpRates {
  double eight_bits = 0.0, sixteen_bits = 0.0, tf32 = 0.0, fp32 = 0.0;  // FLOP/s of large products; 0: it has no such
  double half_side = 0.0;                                               // shortest side of a product that reaches half of that
  double epilogue_share = 1.0;                                          // of that by products with a GELU in them
  double attention_forward = 0.0, attention_backward = 0.0;             // FLOP/s in 16 bits; in other types less as products are
  double bytes_per_second = 0.0;                                        // of memory
  double launch = 0.0;                                                  // seconds that no op is faster than
};

/// A link of each rank.
struct LinkRates {
  double hop = 0.0;               // seconds from rank to rank, whatever the bytes
  double bytes_per_second = 0.0;  // in each direction
};

/// Where the ranks of a group are.
struct GroupSpan {
  int ranks = 1, nodes = 1;
  int most_of_node = 1;  // ranks of the node that has most
};
/// `members` are ranks of the job, which fill node after node.
GroupSpan span_of(const std::vector<int>& members, int ranks_per_node);

struct MachineProfile {
  std::string name;   // "h100", or of the machine that was measured
  std::string basis;  // where the numbers come from, a sentence
  bool measured = false;
  DeviceKind device = DeviceKind::gpu;
  Bytes memory = 0;        // that a step may take on a rank; 0: not known
  Bytes host_memory = 0;   // that the ranks of a node may take together in its memory; 0: not known
  int ranks_per_node = 8;  // of which the links of a node are
  // Of a collective that runs beside work, the share that takes no time from that work.
  double hidden = 1.0;
  OpRates rates;                              // of an estimate
  std::vector<OpSample> ops;                  // of a measured one
  LinkRates node, network;                    // inside a node, and between nodes; network.bytes_per_second 0: not known
  double host_bytes_per_second = 0.0;         // of copies between a device and pinned memory of its host; 0: not known
  std::vector<CollectiveSample> collectives;  // measured

  /// Whether products of this type (u8: fp8) were measured; an estimate has all that the device has.
  bool covers(DType dtype, bool tf32) const;
  /// Of one call.
  double seconds_of(const OpWork& work) const;
  /// Of one collective, or of a message ("recv"), with nothing else on the links but what all ranks do alike.
  double seconds_of(std::string_view operation, const GroupSpan& span, Bytes bytes) const;
};

/// From the table of telemetry/device_peaks.hpp. Throws Error(usage) for a name that it does not have, with the nearest one.
MachineProfile datasheet_profile(const std::string& gpu);
/// For a plan on CPUs without a measured profile: a core of a few years ago, and a shared network. Rough.
MachineProfile usual_cpu_profile();

/// As the text of a file: read_profile() gives the same profile again.
std::string to_json(const MachineProfile& profile);
/// Throws Error(config) naming the file and what is wrong with it: not JSON (a torn file), of another format or version, numbers
/// that no machine has, no sample of what every step needs.
MachineProfile read_profile(const std::filesystem::path& file);

}  // namespace cohort
