// Where memory lies and ops run.
#pragma once

#include <cstdint>
#include <string_view>

namespace cohort {

enum class DeviceKind : std::uint8_t { cpu, gpu };

inline std::string_view name_of(DeviceKind kind) { return kind == DeviceKind::gpu ? "gpu" : "cpu"; }

}  // namespace cohort
