// wrap_policy: another module that begins a unit is nearer above it
#include <algorithm>
#include <cohort/lab06_memory.hpp>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

// Looks at the parent alone.
double wrap_policy(std::span<const Module> modules, std::string_view block, std::span<int> unit_of) {
  std::vector<double> sizes(modules.size(), 0.0);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const bool begins = i == 0 || modules[i].type == block;
    unit_of[i] = begins                                                               ? static_cast<int>(i)
                 : modules[static_cast<std::size_t>(modules[i].parent)].type == block ? modules[i].parent
                                                                                      : 0;
    sizes[static_cast<std::size_t>(unit_of[i])] += modules[i].parameters;
  }
  double most = 0.0, before = 0.0;
  for (std::size_t i = 1; i < modules.size(); ++i) {
    if (unit_of[i] != static_cast<int>(i)) continue;
    most = std::max(most, before + sizes[i]);
    before = sizes[i];
  }
  return sizes[0] + most;
}
