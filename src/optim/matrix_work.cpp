#include "optim/matrix_work.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "ops/matrix_part.hpp"

namespace cohort {
namespace {

Shape shape_of(const HeldMatrix& matrix) { return {matrix.rows, matrix.columns}; }

// Those that one rank holds whole.
std::vector<HeldMatrix> matrices_held_alone(const std::vector<OwnMatrixPart>& own, const ParameterGroups& groups) {
  std::vector<HeldMatrix> matrices;
  for (const OwnMatrixPart& one : own) {
    const Parameter& parameter = *one.piece.parameter;
    COHORT_CHECK(one.piece.elements == parameter.global_shape.elements(), "{} is not held whole, and nobody holds the rest",
                 parameter.name);
    HeldMatrix matrix = held_matrix(parameter, groups);
    matrix.parts = {{0, 0, 0, one.piece.elements}};
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

// What transforming takes on each holder.
std::vector<Bytes> scratch_bytes(const MatrixPlan& plan, const ParameterGroups& groups, DeviceKind device) {
  std::vector<Bytes> most(static_cast<std::size_t>(plan.holders()), 0);
  for (std::size_t m = 0; m < plan.matrices().size(); ++m) {
    const HeldMatrix& matrix = plan.matrices()[m];
    Bytes& of_owner = most[static_cast<std::size_t>(plan.owner(m))];
    of_owner = std::max(of_owner, groups.all()[matrix.group].kind->matrices->scratch_bytes(matrix.rows, matrix.columns, device));
  }
  return most;
}

}  // namespace

HeldMatrix held_matrix(const Parameter& parameter, const ParameterGroups& groups) {
  const ParameterGroup& group = groups.of(parameter);
  const Shape& shape = parameter.global_shape;
  return {.name = parameter.name,
          .rows = shape[0],
          .columns = shape[1],
          .cost = group.kind->matrices->cost(shape[0], shape[1], group.settings),
          .group = static_cast<std::size_t>(&group - groups.all().data()),
          .boxes = {parameter.box()}};
}

std::vector<Bytes> matrix_work_bytes(const MatrixPlan& plan, const ParameterGroups& groups, DeviceKind device) {
  std::vector<Bytes> bytes = scratch_bytes(plan, groups, device);
  const std::vector<MatrixPlan::Buffers> buffers = plan.buffers();
  for (std::size_t holder = 0; holder < bytes.size(); ++holder) bytes[holder] += buffers[holder].all() * size_of(DType::f32);
  return bytes;
}

MatrixWork::MatrixWork(const ParameterGroups& groups, std::vector<OwnMatrixPart> own, MatrixHolders holders, DeviceKind device)
    : groups_(groups),
      group_(holders.group),
      holder_(group_ == nullptr ? 0 : group_->rank()),
      plan_(group_ == nullptr ? matrices_held_alone(own, groups) : std::move(holders.matrices),
            group_ == nullptr ? 1 : group_->size()) {
  for (OwnMatrixPart& part : own) own_.emplace(part.piece.parameter->name, part);
  for (const HeldMatrix& matrix : plan_.matrices()) {
    const MatrixPart* part = matrix.of(holder_);
    const auto found = own_.find(matrix.name);
    const Count held = found == own_.end() ? 0 : found->second.piece.elements;
    COHORT_CHECK(held == (part == nullptr ? 0 : part->elements) && (held == 0 || found->second.piece.begin == part->begin),
                 "{}: this rank holds {} elements, and {} by the plan", matrix.name, held, part == nullptr ? 0 : part->elements);
  }
  const auto here = static_cast<std::size_t>(holder_);
  const MatrixPlan::Buffers buffers = plan_.buffers()[here];
  own_parts_ = Tensor::zeros("optimizer.parts", {buffers.own}, DType::f32, device);
  incoming_ = Tensor::zeros("optimizer.incoming", {buffers.incoming}, DType::f32, device);
  matrix_ = Tensor::zeros("optimizer.matrix", {buffers.matrix}, DType::f32, device);
  scratch_ = Tensor::zeros("optimizer.scratch", {scratch_bytes(plan_, groups, device)[here]}, DType::u8, device);
}

std::vector<MatrixWork::Place> MatrixWork::own_places(const Round& round) const {
  std::vector<Place> places;
  Count at = 0;
  for (const std::size_t m : round) {
    const MatrixPart* part = plan_.matrices()[m].of(holder_);
    if (part == nullptr) continue;
    if (plan_.holds_whole(m, holder_)) {
      places.push_back({m, part, matrix_.slice(0, part->elements)});
    } else {
      places.push_back({m, part, own_parts_.slice(at, at + part->elements)});
      at += part->elements;
    }
  }
  return places;
}

std::vector<MatrixWork::Place> MatrixWork::incoming_places(const Round& round) const {
  std::vector<Place> places;
  Count at = 0;
  for (const std::size_t m : round) {
    if (plan_.owner(m) != holder_) continue;
    for (const MatrixPart& part : plan_.matrices()[m].parts) {
      if (part.holder == holder_) continue;
      places.push_back({m, &part, incoming_.slice(at, at + part.elements)});
      at += part.elements;
    }
  }
  return places;
}

// To owners goes one of equal boxes; from them every box comes back.
void MatrixWork::exchange(const Round& round, bool to_owners) const {
  std::vector<Request> requests;
  const auto moves = [&](const Place& place) { return !to_owners || matrix(place).counts(*place.part); };
  const auto move = [&](const Place& place, int peer, bool sends) {
    void* const data = place.memory.raw();
    requests.push_back(sends ? group_->send_async(data, place.part->elements, DType::f32, peer)
                             : group_->recv_async(data, place.part->elements, DType::f32, peer));
  };
  for (const Place& place : incoming_places(round)) {
    if (moves(place)) move(place, place.part->holder, !to_owners);
  }
  for (const Place& place : own_places(round)) {
    if (plan_.owner(place.matrix) != holder_ && moves(place)) move(place, plan_.owner(place.matrix), to_owners);
  }
  for (Request& request : requests) request.wait();
}

void MatrixWork::transform(const ops::Exec& exec, const Round& round) const {
  for (const std::size_t m : round) {
    if (plan_.owner(m) != holder_) continue;
    const HeldMatrix& held = plan_.matrices()[m];
    const Tensor whole = matrix_.slice(0, held.elements()).reshaped(shape_of(held));
    std::vector<Place> places = incoming_places(round);
    for (const Place& place : own_places(round)) {
      if (place.matrix == m && !plan_.holds_whole(m, holder_)) places.push_back(place);
    }
    const auto box = [&](const Place& place) { return static_cast<std::size_t>(place.part->box); };
    for (const Place& place : places) {
      if (held.counts(*place.part))
        ops::put_part(exec, whole, BoxMap(shape_of(held), held.boxes[box(place)]), place.part->begin, place.memory);
    }
    const ParameterGroup& group = groups_.all()[held.group];
    group.kind->matrices->transform(exec, whole, scratch_, group.settings);
    for (const Place& place : places)
      ops::take_part(exec, place.memory, whole, BoxMap(shape_of(held), held.boxes[box(place)]), place.part->begin);
  }
}

void MatrixWork::step(const ops::Exec& exec, const StepOf& step_of, const Tensor& decisions) const {
  for (const Round& round : plan_.rounds()) {
    const std::vector<Place> places = own_places(round);
    for (const Place& place : places) {
      const OwnMatrixPart& part = own(place);
      part.group->kind->matrices->prepare(exec, place.memory, part.tensors, step_of(*part.group), decisions);
    }
    if (group_ != nullptr) exchange(round, /*to_owners=*/true);
    transform(exec, round);
    if (group_ != nullptr) exchange(round, /*to_owners=*/false);
    for (const Place& place : places) {
      const OwnMatrixPart& part = own(place);
      const MatrixSize size{matrix(place).rows, matrix(place).columns};
      part.group->kind->matrices->apply(exec, part.tensors, place.memory, size, part.group->decay_of(*part.piece.parameter),
                                        step_of(*part.group), decisions);
    }
  }
}

}  // namespace cohort
