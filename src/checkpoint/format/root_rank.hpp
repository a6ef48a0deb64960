// The rank of a communicator that writes what there is once: manifest, index, retention.
#pragma once

namespace cohort {

constexpr int kRoot = 0;

}  // namespace cohort
