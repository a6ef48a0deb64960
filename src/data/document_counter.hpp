// Documents by split, counted as they come.
#pragma once

#include "base/units.hpp"
#include "data/token_file.hpp"

namespace cohort {

class DocumentCounter {
 public:
  /// `train`: tokens of the first split.
  explicit DocumentCounter(Count train) : train_(train) {}

  /// A document begins at this token of all, where the one before it ends.
  void begin(Count position) {
    end(position);
    start_ = position;
  }
  DocumentCounts finish(Count tokens) {
    end(tokens);
    return counts_;
  }

 private:
  void end(Count position) {
    if (start_ < 0) return;
    counts_.train += start_ < train_ ? 1 : 0;
    counts_.validation += position > train_ ? 1 : 0;  // one that the splits divide is in both
  }

  Count train_;
  Count start_ = -1;  // of the document that has begun
  DocumentCounts counts_;
};

}  // namespace cohort
