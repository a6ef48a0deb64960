// The kinds of memory of a training, and how a label (memory_account.hpp) says its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/device_kind.hpp"
#include "base/units.hpp"

namespace cohort {

enum class MemoryKind : std::uint8_t { parameters, gradients, optimizer, activations, buffers };

inline constexpr std::array kMemoryKinds{MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer,
                                         MemoryKind::activations, MemoryKind::buffers};

std::string_view name_of(MemoryKind kind);

/// The kind that is the first word of the label: parameters of "parameters.values", activations of "activations". None if the
/// word is another.
std::optional<MemoryKind> kind_of_label(std::string_view label);

/// One value for each kind, in the order of MemoryKind.
template <class T>
struct ByKind {
  std::array<T, kMemoryKinds.size()> values{};
  T& operator[](MemoryKind kind) { return values[static_cast<std::size_t>(kind)]; }
  const T& operator[](MemoryKind kind) const { return values[static_cast<std::size_t>(kind)]; }
};

/// The account of memory (memory_account.hpp) of this process, or of this thread if it counts, summed up.
struct KindsOfMemory {
  ByKind<Bytes> kinds;                  // most at once of each label; of activations, most that each arena had handed out
  Bytes arenas = 0;                     // most at once of what arenas of activations hold, handed out or not
  std::map<std::string, Bytes> others;  // by label
};
KindsOfMemory kinds_of_memory(DeviceKind device);
/// Of all kinds, now.
Bytes live_bytes_of_kinds(DeviceKind device);

}  // namespace cohort
