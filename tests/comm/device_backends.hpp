// The backends of device memory for the communicator tests, and the device that they need. For test programs labelled gpu, in
// builds with CUDA.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "comm/mpi_communicator.hpp"
#include "comm/nccl_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "comm/staged_communicator.hpp"
#include "gpu/device.hpp"
#include "runtime/device_choice.hpp"
#include "runtime/mpi_world.hpp"

namespace cohort::test {

/// A buffer in device memory. Its contents are copied on the compute stream, as a kernel would read and write them.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const std::vector<T>& values)
      : count_(values.size()), data_(static_cast<T*>(gpu::allocate(bytes(), "a buffer of a test"))) {
    if (count_ > 0) gpu::copy(data_, values.data(), bytes());
  }
  ~DeviceBuffer() { gpu::release(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* data() { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    if (count_ > 0) gpu::copy(values.data(), data_, bytes());
    return values;
  }

 private:
  Bytes bytes() const { return static_cast<Bytes>(count_ * sizeof(T)); }

  std::size_t count_;
  T* data_;
};

/// The ranks of the test, on the host. Lives to the end of the process, after MPI: its destructor knows.
inline Communicator& host_world() {
  static const std::unique_ptr<Communicator> world = make_world_communicator();
  return *world;
}

/// Every rank is a group of its own.
struct SelfDeviceBackend {
  static constexpr Count kLimit = 1 << 20;
  template <class T>
  using Buffer = DeviceBuffer<T>;
  static std::unique_ptr<Communicator> make() { return make_self_communicator("world", DeviceKind::gpu); }
};

/// NCCL counts in 64 bits: nothing is ever cut.
struct NcclBackend {
  static constexpr Count kLimit = 1 << 20;
  template <class T>
  using Buffer = DeviceBuffer<T>;
  static std::unique_ptr<Communicator> make() { return make_nccl_communicator(host_world(), "world"); }
};

/// Through the host.
struct StagedBackend {
  static constexpr Count kLimit = 1 << 20;
  template <class T>
  using Buffer = DeviceBuffer<T>;
  static std::unique_ptr<Communicator> make() { return make_staged_communicator(host_world(), "world"); }
};

using DeviceBackends = ::testing::Types<SelfDeviceBackend, NcclBackend, StagedBackend>;

/// Opens the device of this rank for all tests of the program, which are skipped where there are GPUs, but fewer than ranks: NCCL
/// needs one for each. To be given to AddGlobalTestEnvironment().
class DeviceEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    const int gpus = gpu::visible_devices();
    if (gpus > 0 && gpus < host_world().size()) {
      // tests/CMakeLists.txt has ctest look for this line.
      GTEST_SKIP() << "too few GPUs: " << gpus << " for " << host_world().size() << " ranks";
    }
    const int local_rank = mpi_facts().local_rank;
    gpu::open(choose_device("this node", local_rank, /*share=*/false));
  }
  void TearDown() override { gpu::close(); }
};

}  // namespace cohort::test
