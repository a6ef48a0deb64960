// What there is to encode, in parts that any rank can do, in the order in which the token file has them. The plan follows from
// the inputs alone, so that it is the same on every rank and for any number of ranks.
#pragma once

#include <functional>
#include <vector>

#include "base/units.hpp"
#include "data/texts/input_files.hpp"

namespace cohort {

/// A piece (data/texts/pieces.hpp) of a file of the list of inputs.
struct PiecePlace {
  std::size_t file = 0;
  Count number = 0;
};

struct WorkItem {
  std::vector<PiecePlace> pieces;
  bool open_ended = false;  // a compressed text, of which only piece 0 is named: a part for each piece, until the text ends
  Bytes bytes = 0;          // as stored, about
};

struct WorkPlan {
  std::vector<WorkItem> items{};
  Bytes piece_bytes = 0;
  Bytes bytes = 0;
};

/// About 256 pieces, of 256 KiB to 16 MiB: small ones spread a small text over ranks, large ones keep parts few.
Bytes piece_bytes_for(Bytes inputs);

/// Small files share an item, large ones have many.
WorkPlan plan_work(const InputList& inputs, Bytes piece_bytes);

/// Which pieces of an item a rank does: `first`, first + stride, ...; none if first < 0. Of items that are not open-ended all or
/// nothing.
struct WorkShare {
  Count first = -1;
  Count stride = 1;
};
std::vector<WorkShare> deal_work(const WorkPlan& plan, int rank, int ranks);

}  // namespace cohort
