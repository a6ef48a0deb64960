// The backends of host memory that the communicator tests run on, as types: each makes a communicator over the ranks of the test
// and the buffers that it can reach. Those of device memory are in device_backends.hpp; all pass the same tests.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/self_communicator.hpp"

namespace cohort::test {

/// A buffer in host memory. A backend of device memory brings its own, with the same members.
template <class T>
class HostBuffer {
 public:
  explicit HostBuffer(std::vector<T> values) : values_(std::move(values)) {}
  T* data() { return values_.data(); }
  const std::vector<T>& host() const { return values_; }

 private:
  std::vector<T> values_;
};

/// Every rank is a group of its own.
struct SelfBackend {
  static constexpr Count kLimit = 1 << 20;
  template <class T>
  using Buffer = HostBuffer<T>;
  static std::unique_ptr<Communicator> make() { return make_self_communicator("world"); }
};

/// MPI with at most `Limit` elements per call.
template <Count Limit>
struct MpiBackend {
  static constexpr Count kLimit = Limit;
  template <class T>
  using Buffer = HostBuffer<T>;
  static std::unique_ptr<Communicator> make() { return make_world_communicator({.max_elements_per_call = Limit}); }
};

/// Each backend once, for what does not depend on limits.
using PlainBackends = ::testing::Types<SelfBackend, MpiBackend<1 << 20>>;
/// With limits that cut.
using Backends =
    ::testing::Types<SelfBackend, MpiBackend<1 << 20>, MpiBackend<1>, MpiBackend<3>, MpiBackend<7>, MpiBackend<1000>>;

template <class Backend>
class CommunicatorTest : public ::testing::Test {
 protected:
  // A count that is cut into many calls, whatever the limit; odd, so that it divides evenly by nothing.
  static constexpr Count kLarge = Backend::kLimit < 1000 ? 41 * Backend::kLimit + 2 : 30'011;
  static constexpr std::array<Count, 6> kCounts = {0, 1, 2, 7, 33, kLarge};

  std::unique_ptr<Communicator> comm_ = Backend::make();
};

}  // namespace cohort::test
