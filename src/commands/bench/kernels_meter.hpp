// How kernels are timed: on random data (constants cost a card less power, and so less time), by events around each run, medians.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "commands/bench/kernels_shapes.hpp"
#include "gpu/device.hpp"

namespace cohort {

struct Timing {
  std::string kernel;
  Count runs;  // in one micro-batch; 0: none, or once a step
  double milliseconds;
  double work;  // floating-point operations, or bytes
  bool is_flops;

  double rate() const { return work / (1e-3 * milliseconds); }
};

class Meter {
 public:
  Meter();

  /// Device memory of bf16 normals; read as fp32 they are normals too. Lives as long as the meter.
  template <class T = void>
  T* normals(Bytes bytes) {
    return static_cast<T*>(filled(bytes, normals_));
  }
  /// The same without signs.
  template <class T = void>
  T* positives(Bytes bytes) {
    return static_cast<T*>(filled(bytes, positives_));
  }
  /// Device memory with these contents.
  template <class T>
  T* holding(const std::vector<T>& values) {
    const Bytes bytes = static_cast<Bytes>(values.size() * sizeof(T));
    void* memory = block(bytes);
    gpu::copy(memory, values.data(), bytes);
    return static_cast<T*>(memory);
  }

  /// A kernel bound by arithmetic: run back to back, as in a step, so that clocks settle where the card's power lets them.
  void product(std::string kernel, Count runs, double flops, const std::function<void()>& run);
  /// A kernel bound by bandwidth: before each run other memory is read, so that the L2 cache holds nothing of the kernel's.
  void pass(std::string kernel, Count runs, double bytes, const std::function<void()>& run);

  /// In the order of the calls above.
  const std::vector<Timing>& timings() const { return timings_; }

 private:
  using Block = std::unique_ptr<void, decltype(&gpu::release)>;
  void* block(Bytes bytes);
  void* filled(Bytes bytes, const void* pattern);
  void flush_cache();
  double median_milliseconds(const std::function<void()>& run, bool flush);

  std::vector<Block> blocks_;
  void* normals_ = nullptr;
  void* positives_ = nullptr;
  float* other_memory_ = nullptr;
  double* sum_ = nullptr;
  std::vector<Timing> timings_;
};

// The parts of a step, one file each.
void measure_products(Meter& meter, const StepShape& shape);
void measure_attention(Meter& meter, const StepShape& shape);
void measure_passes(Meter& meter, const StepShape& shape);

}  // namespace cohort
