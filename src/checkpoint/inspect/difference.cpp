#include "checkpoint/inspect/difference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/checksum.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/inspect/elements.hpp"

namespace cohort {
namespace {

// Elements read at a time of each side. Several blocks: a window of rows of a tensor whose columns are cut over ranks touches a
// block of each rank, and small windows would read such blocks again and again.
constexpr Count kWindow = 8 * kBlockElements;

// Facts of the training state that training goes on from.
constexpr std::array<std::string_view, 8> kDecisive{"step",  "samples_seen", "tokens_seen", "seed",
                                                    "model", "data",         "loss_scale",  "loss_scale_good_steps"};

std::string tokenizer_in_words(const std::string& tokenizer) {
  const auto bytes = static_cast<Bytes>(tokenizer.size());
  return tokenizer.empty() ? "none" : fmt::format("{} bytes, crc32={:08x}", bytes, crc32_of(tokenizer.data(), bytes));
}

double relative_to(double absolute, double a, double b) {
  const double larger = std::max(std::fabs(a), std::fabs(b));
  return std::isfinite(absolute) ? absolute / larger : absolute;
}

std::vector<Count> index_of(const Shape& shape, Count at) {
  std::vector<Count> index(static_cast<std::size_t>(shape.dims()));
  for (int dim = shape.dims() - 1; dim >= 0; --dim) {
    index[static_cast<std::size_t>(dim)] = at % shape[dim];
    at /= shape[dim];
  }
  return index;
}

/// Elements `at` in row-major order of both sides, whose bits are different.
struct Pair {
  Count at;
  double a, b;
};

void add(TensorDifference& difference, const Pair& pair, const Shape& shape, double tolerance) {
  double absolute = std::fabs(pair.a - pair.b);
  if (std::isnan(absolute)) absolute = std::numeric_limits<double>::infinity();
  difference.absolute = std::max(difference.absolute, absolute);
  if (absolute > 0.0) difference.relative = std::max(difference.relative, relative_to(absolute, pair.a, pair.b));
  difference.square_sum += absolute * absolute;
  if (tolerance > 0.0 && absolute <= tolerance) return;
  if (difference.different++ == 0) difference.first = index_of(shape, pair.at);
}

class Comparison {
 public:
  Comparison(const TensorReader& a, const TensorReader& b, double tolerance, const ReadingProgress& progress)
      : a_(a), b_(b), tolerance_(tolerance), progress_(progress) {
    for (const ManifestTensor& tensor : a.manifest().tensors()) all_ += tensor.bytes();
  }

  std::vector<TensorDifference> run() {
    std::vector<TensorDifference> differences;
    for (const ManifestTensor& tensor : a_.manifest().tensors()) {
      const Bytes end = done_ + tensor.bytes();
      const ManifestTensor* other = b_.manifest().find(tensor.name);
      differences.push_back(other == nullptr ? alone(tensor, TensorComparison::only_in_first) : compare(tensor, *other));
      done_ = end;
    }
    for (const ManifestTensor& tensor : b_.manifest().tensors()) {
      if (a_.manifest().find(tensor.name) == nullptr) differences.push_back(alone(tensor, TensorComparison::only_in_second));
    }
    return differences;
  }

 private:
  static TensorDifference alone(const ManifestTensor& tensor, TensorComparison where) {
    return {tensor.name, where, fmt::format("{} {}", name_of(tensor.dtype), tensor.shape.str()), tensor.elements(), 0, 0.0, 0.0,
            0.0,         {}};
  }

  TensorDifference compare(const ManifestTensor& a, const ManifestTensor& b) {
    TensorDifference difference{a.name, TensorComparison::equal, "", a.elements(), 0, 0.0, 0.0, 0.0, {}};
    const bool as_fp32 = can_be_read_as_fp32(a.dtype) && can_be_read_as_fp32(b.dtype);
    if (a.shape != b.shape || a.dtype != b.dtype) {
      difference.note = fmt::format("{} {} and {} {}", name_of(a.dtype), a.shape.str(), name_of(b.dtype), b.shape.str());
    }
    if (a.shape != b.shape) {
      difference.result = TensorComparison::other_shape;
    } else if (as_fp32) {
      compare_windows(a, b, difference);
    } else if (a.dtype != b.dtype) {
      difference.result = TensorComparison::other_dtype;
    } else {
      compare_whole(a, b, difference);
    }
    if (difference.different > 0) difference.result = TensorComparison::unequal;
    return difference;
  }

  void compare_windows(const ManifestTensor& a, const ManifestTensor& b, TensorDifference& difference) {
    for (Count begin = 0; begin < a.elements(); begin += kWindow) {
      const TensorPart window(a.shape, begin, std::min(kWindow, a.elements() - begin));
      values_a_.resize(static_cast<std::size_t>(window.elements()));
      values_b_.resize(values_a_.size());
      a_.read(a, window, values_a_);
      b_.read(b, window, values_b_);
      for (std::size_t i = 0; i < values_a_.size(); ++i) {
        if (std::memcmp(&values_a_[i], &values_b_[i], sizeof(float)) == 0) continue;
        add(difference, {begin + static_cast<Count>(i), values_a_[i], values_b_[i]}, a.shape, tolerance_);
      }
      done_ += window.elements() * size_of(a.dtype);
      if (progress_) progress_(done_, all_);
    }
  }

  // Types that no model is trained in: rare, so they may be read whole.
  void compare_whole(const ManifestTensor& a, const ManifestTensor& b, TensorDifference& difference) {
    const TensorReader::Loaded loaded_a = a_.read(a);
    const TensorReader::Loaded loaded_b = b_.read(b);
    std::vector<double> values;
    for_each_element(loaded_b.tensor, [&](double value) { values.push_back(value); });
    const auto width = static_cast<std::size_t>(size_of(a.dtype));
    std::size_t i = 0;
    for_each_element(loaded_a.tensor, [&](double value) {
      if (std::memcmp(loaded_a.memory.data() + i * width, loaded_b.memory.data() + i * width, width) != 0) {
        add(difference, {static_cast<Count>(i), value, values[i]}, a.shape, tolerance_);
      }
      ++i;
    });
  }

  const TensorReader& a_;
  const TensorReader& b_;
  double tolerance_;
  const ReadingProgress& progress_;
  std::vector<float> values_a_, values_b_;
  Bytes done_ = 0;
  Bytes all_ = 0;
};

}  // namespace

double TensorDifference::root_mean_square() const {
  return elements == 0 ? 0.0 : std::sqrt(square_sum / static_cast<double>(elements));
}

std::vector<TensorDifference> compare_tensors(const TensorReader& a, const TensorReader& b, double tolerance,
                                              const ReadingProgress& progress) {
  return Comparison(a, b, tolerance, progress).run();
}

std::vector<StateDifference> compare_states(const TrainingState& a, const TrainingState& b) {
  std::vector<StateDifference> differences;
  for_each_field(a, [&](const char* name, const auto& field) {
    differences.push_back({name, fmt::format("{}", field), "", true});
  });
  std::size_t i = 0;
  for_each_field(b, [&](const char* name, const auto& field) {
    differences[i].b = fmt::format("{}", field);
    differences[i].decides = std::find(kDecisive.begin(), kDecisive.end(), name) != kDecisive.end();
    ++i;
  });
  differences.push_back({"tokenizer", tokenizer_in_words(a.tokenizer), tokenizer_in_words(b.tokenizer),
                         !a.tokenizer.empty() && !b.tokenizer.empty()});
  std::erase_if(differences, [](const StateDifference& difference) { return difference.a == difference.b; });
  return differences;
}

}  // namespace cohort
