#include "tensor/memory_kind.hpp"

#include "tensor/memory_account.hpp"

namespace cohort {

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, kMemoryKinds.size()> kNames{"parameters", "gradients", "optimizer", "activations",
                                                                     "buffers"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<MemoryKind> kind_of_label(std::string_view label) {
  const std::string_view word = label.substr(0, label.find('.'));
  for (const MemoryKind kind : kMemoryKinds) {
    if (word == name_of(kind)) return kind;
  }
  return std::nullopt;
}

KindsOfMemory kinds_of_memory(DeviceKind device) {
  KindsOfMemory memory;
  for (const auto& [label, use] : memory_account(device)) {
    const std::optional<MemoryKind> kind = kind_of_label(label);
    if (kind == MemoryKind::activations) {
      memory.kinds[*kind] += use.used;
      memory.arenas += use.peak;
    } else if (kind) {
      memory.kinds[*kind] += use.peak;
    } else if (use.peak > 0) {
      memory.others[label] = use.peak;
    }
  }
  return memory;
}

Bytes live_bytes_of_kinds(DeviceKind device) {
  Bytes bytes = 0;
  for (const auto& [label, use] : memory_account(device)) bytes += kind_of_label(label) ? use.live : 0;
  return bytes;
}

}  // namespace cohort
