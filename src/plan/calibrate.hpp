// Measures the machine for a profile: each op of a training step at several sizes, on all ranks at once as in a step, and each
// collective by message size. What an op does is not written down again: the op itself notes it (ops/op_note.hpp), on a thread
// that counts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "ops/exec.hpp"
#include "plan/profile.hpp"

namespace cohort {

/// The types of a policy (precision.policy) on a device. What "fp8" has beside "bf16", its products, is u8.
struct CalibratedType {
  DType dtype = DType::f32;
  bool tf32 = false;
};

struct Calibration {
  DeviceKind device = DeviceKind::cpu;
  std::vector<CalibratedType> types;
  Communicator& world;    // of the host
  Communicator& tensors;  // the same ranks, where tensors travel: between GPUs, or `world`
  int nodes = 1;          // which ranks fill one after the other, with as many on each
  int rows_of_calls = 5;  // as in seconds_of_call(), of each op
  std::function<void(const std::string& what)> progress;
};

/// The median times of each op on each rank, as means over the ranks. // Collective over: world
std::vector<OpSample> measure_ops(const Calibration& calibration);

/// Sets collectives, node, network and hidden of a profile; nothing with one rank. // Collective over: world
void measure_links(const Calibration& calibration, MachineProfile& profile);

/// Bytes per second of copies between a device and pinned memory of its host, of all ranks at once, in the slower direction; on a
/// CPU of copies in its memory. The least of the ranks. // Collective over: world
double measure_host_copies(const Calibration& calibration);

/// All three, without a name, a basis and the memory. // Collective over: world
MachineProfile calibrate(const Calibration& calibration);

/// What the one op of `call` notes.
OpWork work_of_call(const std::function<void()>& call);

/// Seconds of one of several calls in a row, on this rank: the median of `rows` such rows. On a GPU the device's time.
double seconds_of_call(DeviceKind device, const std::function<void()>& call, int rows = 5);

}  // namespace cohort
