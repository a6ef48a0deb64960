// What a rank gives to a checkpoint that is being written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/load/shards.hpp"
#include "checkpoint/save_options.hpp"

namespace cohort {

/// Elements of one logical tensor on their way into a file.
struct WriteItem {
  std::string tensor;        // its name in the checkpoint
  int order = 0;             // of the parameter in the whole model
  DType dtype = DType::f32;  // as stored
  TensorPart part;
  /// Elements [begin, begin + elements) of the part, in host memory, of a floating type or of `dtype`; good until the next call.
  /// Each is asked for once, some blocks at a time: who gives them need not hold all of them.
  std::function<Tensor(Count begin, Count elements)> read;
  bool keeps = false;  // what read() gives is of `dtype` and stays good as long as it is held, also after the next call
};

/// Whether this rank gives the shard to a checkpoint. Where rank 0 writes all, its own replica is the one that travels least;
/// else replicas share the writing.
bool is_given(const StateShard& shard, const SaveOptions& options);

/// The shards that this rank gives. With a `model_dtype` of 16 bits the values under /model are rounded to it, and fp32 copies of
/// them go to /optim/master, so that nothing is lost.
std::vector<WriteItem> write_items_of(const std::vector<StateShard>& shards, const SaveOptions& options);

/// Puts them in the order of the format: values, then states, in the order of the model.
void sort_write_items(std::vector<WriteItem>& parts);

/// The elements of a part as they are stored: what read() gives, converted where `dtype` is another. Needs no Kokkos, so that a
/// thread beside the main one may do it.
class StoredElements {
 public:
  /// Of a part that outlives this.
  explicit StoredElements(const WriteItem& part) : part_(part) {}
  /// Elements [begin, begin + elements); good until the next call.
  const std::byte* read(Count begin, Count elements);
  /// The same, to `to`.
  void read_to(Count begin, Count elements, std::byte* to);
  /// The same without any copy, good as long as the tensor is held; an undefined one, and nothing was read, if the part does not
  /// keep what it gives.
  Tensor kept(Count begin, Count elements) const;

 private:
  Tensor given(Count begin, Count elements) const;

  const WriteItem& part_;
  Tensor given_;
  std::vector<std::byte> converted_;
};

/// A tensor that is being written, and which rank gives which elements of it, in the order of the format.
struct PlannedTensor {
  std::string name;
  int order = 0;
  DType dtype = DType::f32;
  Shape shape;
  struct Given {
    int rank;
    TensorPart part;
  };
  std::vector<Given> parts;
};

/// What all ranks give, on every rank. Throws Error(internal) if they disagree on a tensor, or do not give each element of each
/// once, or if two names are in each other's way: "a" beside "a.b" would be a dataset and a group of one name.
// Collective over: comm
std::vector<PlannedTensor> exchange_write_plan(Communicator& comm, const std::vector<WriteItem>& own);
/// The same of a list for each rank. // Local
std::vector<PlannedTensor> write_plan_of_ranks(const std::vector<std::vector<WriteItem>>& ranks);

}  // namespace cohort
