// Token ids as token files store them, little-endian with 2 or 4 bytes. Of a width that the compiler knows: an order of magnitude
// faster.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "base/units.hpp"

namespace cohort {

template <class Visit>
void with_id_type(Bytes width, const Visit& visit) {
  if (width == 2) {
    visit(std::uint16_t{});
  } else {
    visit(std::uint32_t{});
  }
}

/// `to` has room for ids.size() * width bytes.
inline void store_ids(std::span<const std::int32_t> ids, Bytes width, void* to) {
  with_id_type(width, [&]<class Id>(Id) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<Id>(ids[i]);
      std::memcpy(static_cast<char*>(to) + i * sizeof(Id), &id, sizeof(Id));
    }
  });
}

/// `from` has ids.size() * width bytes.
inline void load_ids(const void* from, Bytes width, std::span<std::int32_t> ids) {
  with_id_type(width, [&]<class Id>(Id) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Id id = 0;
      std::memcpy(&id, static_cast<const char*>(from) + i * sizeof(Id), sizeof(Id));
      ids[i] = static_cast<std::int32_t>(id);
    }
  });
}

}  // namespace cohort
