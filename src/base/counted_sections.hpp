// Sections of a step that are alike, on a thread that counts (base/counting.hpp): they need not all be run. Who counts remembers
// what the first one told who listens, and takes it again for the others. Who runs such sections (nn/counted_blocks.hpp) says
// where they begin and end, and itself accounts for the memory that they take of arenas.
#pragma once

#include <cstddef>
#include <optional>

namespace cohort {

class CountedSections {
 public:
  virtual ~CountedSections() = default;

  /// What follows, up to end_section(), is a section; sections do not nest.
  virtual void begin_section() = 0;
  /// The number of the section that ends; nothing if it cannot be taken again by itself, since it awaits what began before it or
  /// leaves something under way.
  virtual std::optional<std::size_t> end_section() = 0;
  /// As if that section were run here once more.
  virtual void take_again(std::size_t section) = 0;
};

}  // namespace cohort
