// What an op tells who listens to a counting thread (base/counting_listener.hpp): its name, and what it reads and writes.
#pragma once

#include <initializer_list>

#include "base/counting_listener.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// The first line of an op. While it lives, ops that this one is made of say nothing. Undefined tensors are left out. Costs a
/// look at a variable of the thread where nobody listens.
class OpNote {
 public:
  using Tensors = std::initializer_list<const Tensor*>;

  OpNote(const char* name, Tensors reads, Tensors writes) : listens_(counting_listener() != nullptr) {
    if (listens_) begin(name, reads, writes);
  }
  ~OpNote() {
    if (listens_) end();
  }
  OpNote(const OpNote&) = delete;
  OpNote& operator=(const OpNote&) = delete;

 private:
  static void begin(const char* name, Tensors reads, Tensors writes);
  static void end();

  bool listens_;
};

}  // namespace cohort::ops
