#include "checkpoint/write/write_plan.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/part_json.hpp"
#include "checkpoint/format/root_rank.hpp"
#include "comm/consensus.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

/// What a rank tells the others of one of its parts.
struct ToldPart {
  int rank;
  std::string tensor;
  int order;
  DType dtype;
  TensorPart part;
};

template <class Part>
auto key_of(const Part& p) {
  return std::tuple<bool, int, std::string_view, const std::vector<Count>&, Count>(!p.tensor.starts_with(kModelGroup), p.order,
                                                                                   p.tensor, p.part.box().start, p.part.begin());
}

std::string to_text(const std::vector<WriteItem>& parts) {
  Json list = Json::array();
  for (const WriteItem& p : parts) {
    Json item{{"tensor", p.tensor}, {"order", p.order}, {"dtype", name_of(p.dtype)}, {"shape", p.part.shape().vector()}};
    add_part(item, p.part);
    list.push_back(std::move(item));
  }
  return list.dump();
}

void append_from_text(const std::string& text, int rank, std::vector<ToldPart>& parts) {
  for (const Json& item : Json::parse(text)) {
    const Shape shape(item["shape"].get<std::vector<Count>>());
    parts.push_back(
        {rank, item["tensor"], item["order"], dtype_from_name(item["dtype"].get<std::string>()), part_from(item, shape)});
  }
}

// Names become paths.
void check_names(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    COHORT_CHECK(name.starts_with('/') && name.find("//") == std::string::npos && !name.ends_with('/'),
                 "the parameter stored as {} has an empty part in its name", name);
    for (std::size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      COHORT_CHECK(!names.contains(name.substr(0, slash)), "parameter {} is also the beginning of {}", name.substr(0, slash),
                   name);
    }
  }
}

std::vector<PlannedTensor> tensors_of(std::vector<ToldPart> parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
  std::vector<PlannedTensor> tensors;
  std::set<std::string> names;
  for (ToldPart& p : parts) {
    if (tensors.empty() || tensors.back().name != p.tensor) {
      COHORT_CHECK(names.insert(p.tensor).second, "{} is stored twice", p.tensor);
      tensors.push_back({p.tensor, p.order, p.dtype, p.part.shape(), {}});
    }
    PlannedTensor& tensor = tensors.back();
    COHORT_CHECK(tensor.shape == p.part.shape() && tensor.dtype == p.dtype, "{} is {} {} on rank {} and {} {} on another",
                 p.tensor, name_of(p.dtype), p.part.shape().str(), p.rank, name_of(tensor.dtype), tensor.shape.str());
    tensor.parts.push_back({p.rank, std::move(p.part)});
  }
  check_names(names);
  for (const PlannedTensor& tensor : tensors) {
    std::vector<const TensorPart*> given;
    for (const PlannedTensor::Given& g : tensor.parts) given.push_back(&g.part);
    check_coverage(tensor.name, tensor.shape, std::move(given));
  }
  return tensors;
}

template <class To, class From>
void convert_elements(const Tensor& from, std::byte* to) {
  for (const From value : from.span<From>()) {
    const To stored = from_float<To>(to_float(value));
    std::memcpy(to, &stored, sizeof(To));
    to += sizeof(To);
  }
}

template <class To>
void convert_elements(const Tensor& from, std::byte* to) {
  switch (from.dtype()) {
    case DType::f32:
      return convert_elements<To, float>(from, to);
    case DType::bf16:
      return convert_elements<To, bf16>(from, to);
    case DType::f16:
      return convert_elements<To, f16>(from, to);
    default:
      COHORT_CHECK(false, "{} elements stored as another type", name_of(from.dtype()));
  }
}

void convert_elements(const Tensor& from, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::f32:
      return convert_elements<float>(from, to);
    case DType::bf16:
      return convert_elements<bf16>(from, to);
    case DType::f16:
      return convert_elements<f16>(from, to);
    default:
      COHORT_CHECK(false, "{} elements stored as {}", name_of(from.dtype()), name_of(dtype));
  }
}

}  // namespace

bool is_given(const StateShard& shard, const SaveOptions& options) {
  const bool gathered = options.form == CheckpointForm::consolidated && !options.storage.collective;
  return gathered ? shard.writes : shard.writes_share;
}

std::vector<WriteItem> write_items_of(const std::vector<StateShard>& shards, const SaveOptions& options) {
  std::vector<WriteItem> parts;
  for (const StateShard& shard : shards) {
    if (!is_given(shard, options)) continue;
    const auto add = [&](std::string tensor, DType dtype) {
      const auto read = [elements = shard.elements](Count begin, Count count) {
        return elements.slice(begin, begin + count).to_host();
      };
      parts.push_back({std::move(tensor), shard.order, dtype, shard.part, read, dtype == DType::f32});
    };
    const bool rounded = options.model_dtype != DType::f32 && shard.tensor.starts_with(kModelGroup);
    add(shard.tensor, rounded ? options.model_dtype : DType::f32);
    if (rounded) add(std::string(kMasterGroup) + shard.tensor.substr(kModelGroup.size()), DType::f32);
  }
  return parts;
}

void sort_write_items(std::vector<WriteItem>& parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
}

Tensor StoredElements::given(Count begin, Count elements) const {
  Tensor given = part_.read(begin, elements);
  COHORT_CHECK(given.on_host() && given.elements() == elements, "{}: {} elements instead of {}", part_.tensor, given.elements(),
               elements);
  return given;
}

const std::byte* StoredElements::read(Count begin, Count elements) {
  given_ = given(begin, elements);
  if (given_.dtype() == part_.dtype) return static_cast<const std::byte*>(given_.raw());
  converted_.resize(static_cast<std::size_t>(elements * size_of(part_.dtype)));
  convert_elements(given_, part_.dtype, converted_.data());
  return converted_.data();
}

void StoredElements::read_to(Count begin, Count elements, std::byte* to) {
  given_ = given(begin, elements);
  if (given_.dtype() != part_.dtype) return convert_elements(given_, part_.dtype, to);
  std::memcpy(to, given_.raw(), static_cast<std::size_t>(given_.bytes()));
}

Tensor StoredElements::kept(Count begin, Count elements) const {
  if (!part_.keeps) return {};
  Tensor kept = given(begin, elements);
  COHORT_CHECK(kept.dtype() == part_.dtype, "{}: {} elements kept for {}", part_.tensor, name_of(kept.dtype()),
               name_of(part_.dtype));
  return kept;
}

std::vector<PlannedTensor> exchange_write_plan(Communicator& comm, const std::vector<WriteItem>& own) {
  std::string all = to_text(own);
  if (comm.size() > 1) {
    nlohmann::json texts = gather_texts(comm, all, kRoot);
    all = broadcast_text(comm, texts.dump(), kRoot);
  } else {
    all = nlohmann::json{all}.dump();
  }
  std::vector<PlannedTensor> tensors;
  fail_together(comm, "saving the checkpoint", [&] {
    std::vector<ToldPart> parts;
    int rank = 0;
    for (const auto& text : nlohmann::json::parse(all)) append_from_text(text, rank++, parts);
    tensors = tensors_of(std::move(parts));
  });
  return tensors;
}

std::vector<PlannedTensor> write_plan_of_ranks(const std::vector<std::vector<WriteItem>>& ranks) {
  std::vector<ToldPart> parts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const WriteItem& p : ranks[rank]) parts.push_back({static_cast<int>(rank), p.tensor, p.order, p.dtype, p.part});
  }
  return tensors_of(std::move(parts));
}

}  // namespace cohort
