#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "commands/ckpt/show.hpp"

namespace cohort {
namespace {

constexpr std::size_t kFewestFolded = 3;

/// A group or a tensor.
struct Node {
  std::string name;
  std::vector<std::unique_ptr<Node>> children;  // in the order of the checkpoint
  const ShownTensor* tensor = nullptr;

  Node& child(const std::string& wanted) {
    for (const auto& known : children) {
      if (known->name == wanted) return *known;
    }
    children.push_back(std::make_unique<Node>(Node{wanted, {}, nullptr}));
    return *children.back();
  }

  /// Equal for nodes that hold tensors of equal names, shapes and types, whatever they are called themselves.
  std::string kind() const {
    if (tensor != nullptr) return fmt::format("{} {}", name_of(tensor->stored->dtype), tensor->stored->shape.str());
    std::string text = "(";
    for (const auto& node : children) text += node->name + ":" + node->kind() + ",";
    return text + ")";
  }
};

/// Nodes of one kind that share a line.
using Bundle = std::vector<const Node*>;

std::optional<Count> number_of(std::string_view name) {
  Count number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// Three digits, so that a line fits a terminal; --tensor shows more.
std::string figure(double value) { return fmt::format("{:.3g}", value); }

std::string range_of_norms(const Bundle& bundle) {
  const auto norm = [](const Node* node) { return node->tensor->statistics->norm; };
  const auto less = [&](const Node* a, const Node* b) { return norm(a) < norm(b); };
  const std::string low = figure(norm(*std::min_element(bundle.begin(), bundle.end(), less)));
  const std::string high = figure(norm(*std::max_element(bundle.begin(), bundle.end(), less)));
  return low == high ? low : fmt::format("{} .. {}", low, high);
}

class Tree {
 public:
  Tree(const TensorReader& reader, const std::vector<ShownTensor>& tensors, bool fold)
      : reader_(reader),
        several_files_(reader.manifest().files.size() > 1),
        fold_(fold),
        read_(!tensors.empty() && tensors.front().statistics.has_value()),
        table_(header()) {
    for (const ShownTensor& tensor : tensors) {
      Node* node = &root_;
      for (const std::string& name : split(tensor.stored->name.substr(1), '/')) node = &node->child(name);
      node->tensor = &tensor;
    }
  }

  std::string str() {
    add_children({&root_}, 0);
    return table_.str(several_files_ ? 4 : 3);
  }

 private:
  std::vector<std::string> header() const {
    std::vector<std::string> header{"tensor", "shape", "dtype"};
    if (several_files_) header.emplace_back("stored in");
    if (read_) header.insert(header.end(), {"norm", "min", "max", "zeros", ""});
    return header;
  }

  /// `bundle` are groups of one kind.
  void add_children(const Bundle& bundle, int depth) {
    const auto& children = bundle.front()->children;
    for (std::size_t begin = 0; begin < children.size();) {
      const std::size_t end = fold_ ? end_of_fold(bundle, begin) : begin + 1;
      Bundle next;
      for (const Node* node : bundle) {
        for (std::size_t i = begin; i < end; ++i) next.push_back(node->children[i].get());
      }
      const std::string& first = children[begin]->name;
      add(next, end - begin == 1 ? first : fmt::format("{}..{}", first, children[end - 1]->name), depth);
      begin = end;
    }
  }

  /// The end of the children from `begin` on that may share lines.
  static std::size_t end_of_fold(const Bundle& bundle, std::size_t begin) {
    const auto& children = bundle.front()->children;
    const std::optional<Count> first = number_of(children[begin]->name);
    if (!first) return begin + 1;
    const std::string kind = children[begin]->kind();
    std::size_t end = begin + 1;
    while (end < children.size() && number_of(children[end]->name) == *first + static_cast<Count>(end - begin) &&
           children[end]->kind() == kind) {
      ++end;
    }
    return end - begin >= kFewestFolded ? end : begin + 1;
  }

  void add(const Bundle& bundle, const std::string& label, int depth) {
    const std::string indented = std::string(static_cast<std::size_t>(2 * depth), ' ') + label;
    if (bundle.front()->tensor != nullptr) return add_tensors(bundle, indented);
    // A group with one child needs no line of its own.
    if (bundle.front()->children.size() == 1) {
      Bundle next;
      for (const Node* node : bundle) next.push_back(node->children.front().get());
      return add(next, label + "/" + next.front()->name, depth);
    }
    table_.add({indented});
    add_children(bundle, depth + 1);
  }

  void add_tensors(const Bundle& bundle, const std::string& label) {
    const ManifestTensor& stored = *bundle.front()->tensor->stored;
    const std::string times = bundle.size() > 1 ? fmt::format("{} x ", bundle.size()) : "";
    std::vector<std::string> row{label, times + stored.shape.str(), std::string(name_of(stored.dtype))};
    if (several_files_) row.push_back(place_of(bundle));
    if (read_) add_figures(bundle, row);
    table_.add(std::move(row));
  }

  static void add_figures(const Bundle& bundle, std::vector<std::string>& row) {
    std::vector<TensorStatistics> parts;
    for (const Node* node : bundle) parts.push_back(*node->tensor->statistics);
    const TensorStatistics sum = merged(parts);
    row.insert(row.end(), {range_of_norms(bundle), figure(sum.min), figure(sum.max)});
    const double share = sum.elements > 0 ? static_cast<double>(sum.zeros) / static_cast<double>(sum.elements) : 0.0;
    row.push_back(fmt::format("{:.3g} %", 100.0 * share));
    std::vector<std::string> oddities;
    if (sum.nans > 0) oddities.push_back(fmt::format("{} NaN", sum.nans));
    if (sum.infinities > 0) oddities.push_back(fmt::format("{} Inf", sum.infinities));
    row.push_back(join(oddities));
  }

  std::string place_of(const Bundle& bundle) const {
    std::set<std::size_t> files;
    std::size_t parts = 0;
    for (const Node* node : bundle) {
      for (const ManifestPart& part : node->tensor->stored->parts) files.insert(part.file);
      parts += node->tensor->stored->parts.size();
    }
    if (files.empty()) return "-";
    if (files.size() == 1) return reader_.manifest().files[*files.begin()].name;
    return fmt::format("{} in {} files", counted(static_cast<Count>(parts), "part"), files.size());
  }

  const TensorReader& reader_;
  bool several_files_;
  bool fold_;
  bool read_;
  Node root_;
  Table table_;
};

}  // namespace

std::string tensor_tree(const TensorReader& reader, const std::vector<ShownTensor>& tensors, bool fold) {
  return Tree(reader, tensors, fold).str();
}

}  // namespace cohort
