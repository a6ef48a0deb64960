#include "ops/op_note.hpp"

#include <vector>

namespace cohort::ops {
namespace {

thread_local int ops_under_way = 0;

std::vector<CountedTensor> defined(OpNote::Tensors tensors) {
  std::vector<CountedTensor> all;
  for (const Tensor* tensor : tensors) {
    if (tensor->defined()) all.push_back({tensor->raw(), tensor->shape(), tensor->dtype()});
  }
  return all;
}

}  // namespace

void OpNote::begin(const char* name, Tensors reads, Tensors writes) {
  if (ops_under_way++ == 0) counting_listener()->op(name, defined(reads), defined(writes));
}

void OpNote::end() { --ops_under_way; }

}  // namespace cohort::ops
