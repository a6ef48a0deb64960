// Who updates which matrix, where ranks hold parts of them and the update needs wholes: only arithmetic, the same on every rank.
// Each matrix has one owner among the ranks that hold a model between them (its holders); owners are chosen so that each has
// about as much to compute. Matrices are done in rounds, one of each owner at a time, so that all owners compute at once and
// nobody needs memory for more than a round.
#pragma once

#include <string>
#include <vector>

#include "base/box.hpp"

namespace cohort {

/// Elements [begin, begin + elements) of box `box` of the matrix.
struct MatrixPart {
  int holder;
  int box;
  Count begin, elements;
};

struct HeldMatrix {
  std::string name;
  Count rows, columns;
  double cost;                         // of its update
  std::size_t group;                   // ParameterGroups::all()
  std::vector<Box> boxes;              // that tensor parallelism leaves: one of each tensor-parallel rank
  std::vector<MatrixPart> parts = {};  // by holder; a holder has one at most

  Count elements() const { return rows * columns; }
  const MatrixPart* of(int holder) const;  // null: none
  /// Whether the part goes into the whole: of equal boxes, the first does.
  bool counts(const MatrixPart& part) const;
};

class MatrixPlan {
 public:
  /// Greedy: the costliest first, each to the holder that has least to do so far (the first of equals).
  MatrixPlan(std::vector<HeldMatrix> matrices, int holders);

  const std::vector<HeldMatrix>& matrices() const { return matrices_; }
  int holders() const { return holders_; }
  int owner(std::size_t matrix) const { return owners_[matrix]; }
  /// Matrices by their numbers: at most one of each owner.
  const std::vector<std::vector<std::size_t>>& rounds() const { return rounds_; }
  /// What the owner computes in all.
  double cost_of(int owner) const;

  /// Whether it is the owner and holds all of it: then nothing moves.
  bool holds_whole(std::size_t matrix, int holder) const;

  /// Elements of a holder's buffers, each for the largest round.
  struct Buffers {
    Count own = 0;       // directions of its parts, then their updates; without what it owns and holds whole
    Count incoming = 0;  // the others' parts of the matrix that it owns
    Count matrix = 0;    // that matrix
    Count all() const { return own + incoming + matrix; }
  };
  std::vector<Buffers> buffers() const;  // of each holder
  /// That each holder sends in a step: directions to owners, updates to holders.
  std::vector<Count> sent_elements() const;

 private:
  std::vector<HeldMatrix> matrices_;
  int holders_;
  std::vector<int> owners_;
  std::vector<std::vector<std::size_t>> rounds_;
};

}  // namespace cohort
