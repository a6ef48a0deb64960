#include "ops/op_note.hpp"

#include <algorithm>
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

// Of the tensors of at least so many dims.
double bytes_of(OpNote::Tensors reads, OpNote::Tensors writes, int dims) {
  Bytes bytes = 0;
  for (const OpNote::Tensors& tensors : {reads, writes}) {
    for (const Tensor* tensor : tensors) {
      if (tensor->defined() && tensor->shape().dims() >= dims) bytes += tensor->bytes();
    }
  }
  return static_cast<double>(bytes);
}

// On the rows of `first`, if it has rows.
OpWork work_on_rows(const Tensor& first, double bytes, std::string_view op = {}) {
  OpWork work{.op = op, .dtype = first.dtype(), .bytes = bytes};
  if (first.shape().dims() > 1) {
    work.m = first.shape().rows();
    work.n = first.shape().columns();
  }
  return work;
}

}  // namespace

OpWork OpNote::pointwise(Tensors reads, Tensors writes) {
  const Tensor& first = **reads.begin();
  return work_on_rows(first, bytes_of(reads, writes, std::min(2, first.shape().dims())));
}

void OpNote::begin(const char* name, Tensors reads, Tensors writes, std::optional<OpWork> work) {
  CountingListener* const listener = counting_listener();
  if (ops_under_way++ == 0) listener->op(name, defined(reads), defined(writes));
  if (!work) return;
  if (work->op.empty()) work->op = name;
  if (work->bytes == 0.0) work->bytes = bytes_of(reads, writes, 0);
  note_work(*work);
  tells_work_ = true;
  ++detail::noted_work_under_way;
}

void OpNote::end() const {
  --ops_under_way;
  if (tells_work_) --detail::noted_work_under_way;
}

OpWork product_work(const Exec& exec, const Tensor& operand, Count m, Count n, Count k) {
  return {.kind = OpKind::product,
          .dtype = operand.dtype(),
          .tf32 = exec.tf32,
          .m = m,
          .n = n,
          .k = k,
          .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)};
}

OpWork attention_work(const Tensor& q, const AttentionShape& shape, Count pairs, int products) {
  const Count heads = shape.batch * shape.heads;
  return {
      .kind = OpKind::attention,
      .dtype = q.dtype(),
      .m = heads,
      .n = shape.tokens,
      .k = shape.head_size,
      .flops = products * 2.0 * static_cast<double>(shape.head_size) * static_cast<double>(heads) * static_cast<double>(pairs)};
}

OpWork traffic(const Tensor& like, Bytes bytes, std::string_view op) {
  return work_on_rows(like, static_cast<double>(bytes), op);
}

}  // namespace cohort::ops
