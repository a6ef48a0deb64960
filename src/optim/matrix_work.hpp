// The update of whole matrices of which ranks hold parts (optim/matrix_plan.hpp). In each round every holder makes the directions
// of its parts from its gradients and slots and sends them to the owners; an owner puts its matrix together, transforms it, and
// sends every holder the update of its part. So slots are divided as the values are, whatever the layout, and a checkpoint knows
// nothing of owners. A matrix that its owner holds whole moves nowhere.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "optim/matrix_plan.hpp"
#include "optim/parameter_groups.hpp"

namespace cohort {

/// Who holds a model between them, and what of its matrices that are updated whole; the same on all.
struct MatrixHolders {
  Communicator* group = nullptr;  // null: only this rank, which holds them whole
  std::vector<HeldMatrix> matrices = {};
};

/// A parameter whose optimizer updates it whole, with the one box that its rank's model has, and no parts yet.
HeldMatrix held_matrix(const Parameter& parameter, const ParameterGroups& groups);

/// This rank's part of a matrix.
struct OwnMatrixPart {
  OwnedPiece piece;
  const ParameterGroup* group;
  UpdateTensors tensors;  // of the piece
};

/// Bytes of the buffers that MatrixWork takes on each holder.
std::vector<Bytes> matrix_work_bytes(const MatrixPlan& plan, const ParameterGroups& groups, DeviceKind device);

class MatrixWork {
 public:
  /// Without a group, `holders` needs no matrices: they are those of `own`, each held whole. `groups` outlives this.
  MatrixWork(const ParameterGroups& groups, std::vector<OwnMatrixPart> own, MatrixHolders holders, DeviceKind device);

  using StepOf = std::function<GroupStep(const ParameterGroup&)>;
  // Collective over: the holders
  void step(const ops::Exec& exec, const StepOf& step_of, const Tensor& decisions) const;

 private:
  using Round = std::vector<std::size_t>;  // the plan's matrices
  /// A part of a matrix of the round, and where it is on its way: in own_parts_, incoming_, or the matrix itself.
  struct Place {
    std::size_t matrix;
    const MatrixPart* part;
    Tensor memory;
  };
  std::vector<Place> own_places(const Round& round) const;
  std::vector<Place> incoming_places(const Round& round) const;
  void exchange(const Round& round, bool to_owners) const;
  void transform(const ops::Exec& exec, const Round& round) const;
  const HeldMatrix& matrix(const Place& place) const { return plan_.matrices()[place.matrix]; }
  const OwnMatrixPart& own(const Place& place) const { return own_.at(matrix(place).name); }

  const ParameterGroups& groups_;
  Communicator* group_;
  int holder_;
  MatrixPlan plan_;
  std::map<std::string, OwnMatrixPart> own_;        // by the parameter's name
  Tensor own_parts_, incoming_, matrix_, scratch_;  // MatrixPlan::Buffers, and what transforming takes
};

}  // namespace cohort
