// What an op tells who listens to a counting thread (base/counting_listener.hpp): its name, what it reads and writes, and its
// work.
//
//   void add(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& y) {
//     const OpNote note("add", {&x, &y}, {&out});
#pragma once

#include <initializer_list>
#include <optional>

#include "base/counting_listener.hpp"
#include "ops/attention_shape.hpp"
#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// The first line of an op. While it lives, ops that this one is made of say nothing but their work, and if it has told its own,
/// not that either. Undefined tensors are left out. Costs a look at a variable of the thread where nobody listens,
/// and the few sums of `work`.
class OpNote {
 public:
  using Tensors = std::initializer_list<const Tensor*>;

  /// An op that goes element by element over the tensors, each of them once (what it adds to is read and written). Vectors beside
  /// matrices, such as a bias or a number for each row, stay in a cache and do not count.
  OpNote(const char* name, Tensors reads, Tensors writes) : listens_(counting_listener() != nullptr) {
    if (listens_) begin(name, reads, writes, pointwise(reads, writes));
  }
  /// `work` without a name is of `name`, without bytes of all tensors, each once. Nothing: it is that of the ops that this one
  /// calls.
  OpNote(const char* name, Tensors reads, Tensors writes, const std::optional<OpWork>& work)
      : listens_(counting_listener() != nullptr) {
    if (listens_) begin(name, reads, writes, work);
  }
  ~OpNote() {
    if (listens_) end();
  }
  OpNote(const OpNote&) = delete;
  OpNote& operator=(const OpNote&) = delete;

 private:
  static OpWork pointwise(Tensors reads, Tensors writes);
  void begin(const char* name, Tensors reads, Tensors writes, std::optional<OpWork> work);
  void end() const;

  bool listens_;
  bool tells_work_ = false;
};

/// For OpNote. C [m, n] = A [m, k] B [k, n], where A or B is `operand`.
OpWork product_work(const Exec& exec, const Tensor& operand, Count m, Count n, Count k);

/// For OpNote. Tiles are multiplied for each of so many pairs of a query and a key that it sees, in each head of each sample.
inline constexpr int kForwardProducts = 2;   // scores, and their product with the values
inline constexpr int kBackwardProducts = 5;  // scores again, and four gradients (Dao 2023, "FlashAttention-2", section 3.1)
OpWork attention_work(const Tensor& q, const AttentionShape& shape, Count pairs, int products);

/// For OpNote: so many bytes of elements like those of `like`. `op`: whose work it is like, if a machine is measured at that one.
OpWork traffic(const Tensor& like, Bytes bytes, std::string_view op = {});

}  // namespace cohort::ops
