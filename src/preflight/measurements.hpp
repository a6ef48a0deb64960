// What a preflight measures on a job's nodes before the real work starts: plain numbers, which assess.hpp compares and the
// command `cohort preflight` shows. Speeds are in bytes per second, times in seconds; what was not measured is 0 or missing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort::preflight {

struct Gpu {
  std::string pci_id;
  std::string name;
  std::string problem;       // why it could not be measured; "" if it was
  double to_device = 0.0;    // from pinned memory of the host
  double from_device = 0.0;  // to pinned memory of the host
  double memory = 0.0;       // within its memory, read and written
  // From here on by NVML, while its memory was busy.
  std::optional<int> celsius;
  std::optional<int> clock_mhz;
  std::optional<int> max_clock_mhz;
  std::vector<std::string> slowed;  // why the clock is held back ("heat", "power limit")
  bool slowed_by_fault = false;     // by something that no healthy card shows
  std::optional<Count> uncorrected_errors;
  bool remap_pending = false;
  bool remap_failed = false;
};

/// Two GPUs of a node, in one direction.
struct GpuPair {
  std::string from;  // PCI addresses
  std::string to;
  bool peer_access = false;
  double speed = 0.0;
};

struct Disk {
  std::string folder;
  std::string problem;  // why it cannot be written; "" if it can
  double write = 0.0;   // with the flush to the disk
  double read = 0.0;
  Bytes free = 0;
};

/// Messages of MPI between the first ranks of two nodes; within a node, between its first two ranks.
struct Link {
  int a = 0;  // number of a node
  int b = 0;
  double latency = 0.0;  // of a small message, one way
  double speed = 0.0;    // of large ones
};

/// What the first rank of a node finds there.
struct Node {
  int number = 0;
  std::string host;
  int ranks = 0;
  int cores = 0;  // that any of its ranks may run on

  // Versions: "" where there is nothing of the kind.
  std::string program;  // of Cohort
  std::string mpi;
  std::string driver;        // NVIDIA's
  std::string driver_cuda;   // newest CUDA that the driver supports
  std::string runtime_cuda;  // CUDA that Cohort was built with
  std::string nccl;

  std::optional<int> expected_gpus;  // by SLURM_GPUS_ON_NODE
  std::string no_gpu;                // why no rank of the node sees one
  std::vector<Gpu> gpus;             // that any of its ranks sees
  std::vector<GpuPair> pairs;

  Bytes memory_total = 0;
  Bytes memory_available = 0;
  Bytes shm_total = 0;  // /dev/shm
  Bytes shm_free = 0;
  // ulimit -n and -l; missing: unlimited.
  std::optional<Count> open_files;
  std::optional<Bytes> locked_memory;
  std::string transports;           // variables that choose MPI's and NCCL's ways
  std::vector<std::string> fabric;  // active ports of InfiniBand and its like: "mlx5_0 port 1, 400 Gb/sec (4X NDR)"
  double clock_offset = 0.0;        // of its wall clock, to that of node 0
  double clock_error = 0.0;         // the offset is right within this
  std::optional<Disk> disk;
  std::vector<Link> links;  // measured by this node: to nodes of higher number, or within (a = b)
};

struct Measurements {
  int ranks = 0;
  bool cuda = false;        // this build of Cohort has CUDA
  std::vector<Node> nodes;  // by number
  std::string gpu_places;   // why ranks and GPUs do not fit together; "" if they do, or there are none
  double nccl = 0.0;        // bus bandwidth of a large all-reduce over all ranks' GPUs
  std::string nccl_problem;
  std::vector<std::string> bindings;  // warnings about cores
};

}  // namespace cohort::preflight
