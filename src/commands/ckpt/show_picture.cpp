// What `cohort ckpt show --svg` draws: tensors gathered by kind.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "commands/ckpt/output.hpp"
#include "commands/ckpt/show.hpp"

namespace cohort {
namespace {

constexpr int kBinsInPictures = 48;
constexpr std::size_t kMostBlocks = 16;
constexpr std::size_t kMostSteps = 24;
constexpr const char* kWeights = "weights";

/// `count` of the items, or all if there are fewer: the first, the last, and between them evenly.
template <class T>
std::vector<T> evenly(const std::vector<T>& items, std::size_t count) {
  if (items.size() <= count) return items;
  std::vector<T> chosen;
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(items[i * (items.size() - 1) / (count - 1)]);
  return chosen;
}

/// "/optim/m/blocks/3/norm1/weight": of the group "m", of the kind "blocks/*/norm1/weight".
struct KindOfName {
  std::string group, kind;
};

KindOfName kind_of(const std::string& name) {
  const std::vector<std::string> words = split(std::string_view(name).substr(1), '/');
  const bool model = name.starts_with(kModelGroup);
  const std::size_t begin = std::min<std::size_t>(model ? 1 : 2, words.size() - 1);
  std::vector<std::string> kind(words.begin() + static_cast<std::ptrdiff_t>(begin), words.end());
  for (std::string& word : kind) {
    if (std::all_of(word.begin(), word.end(), [](unsigned char letter) { return std::isdigit(letter) != 0; })) word = "*";
  }
  return {model ? kWeights : words[begin - 1], join(kind, "/")};
}

/// The tensors of one kind: those of each group, by block.
struct Kind {
  std::string name;
  std::vector<std::vector<const ShownTensor*>> groups;
};

class Gathering {
 public:
  explicit Gathering(const std::vector<ShownTensor>& tensors) {
    groups_.emplace_back(kWeights);
    for (const ShownTensor& tensor : tensors) {
      if (tensor.stored->elements() == 0) continue;
      const auto [group, name] = kind_of(tensor.stored->name);
      const std::size_t place = place_of(group);
      Kind& kind = kind_named(name);
      kind.groups.resize(std::max(kind.groups.size(), place + 1));
      kind.groups[place].push_back(&tensor);
    }
    for (Kind& kind : kinds_) {
      kind.groups.resize(groups_.size());
      for (auto& blocks : kind.groups) blocks = evenly(blocks, kMostBlocks);
    }
  }

  const std::vector<std::string>& groups() const { return groups_; }
  const std::vector<Kind>& kinds() const { return kinds_; }

 private:
  std::size_t place_of(const std::string& group) {
    const auto place = static_cast<std::size_t>(std::find(groups_.begin(), groups_.end(), group) - groups_.begin());
    if (place == groups_.size()) groups_.push_back(group);
    return place;
  }

  Kind& kind_named(const std::string& name) {
    const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return kind.name == name; });
    if (found != kinds_.end()) return *found;
    kinds_.push_back({name, {}});
    return kinds_.back();
  }

  std::vector<std::string> groups_;
  std::vector<Kind> kinds_;
};

// "12 x [768, 768] fp32"; layers of a classifier have several shapes.
std::string facts_of(const Kind& kind) {
  const auto& blocks = *std::find_if(kind.groups.begin(), kind.groups.end(), [](const auto& group) { return !group.empty(); });
  const ManifestTensor& first = *blocks.front()->stored;
  const auto alike = [&](const ShownTensor* block) { return block->stored->shape == first.shape; };
  const std::string times = blocks.size() > 1 ? fmt::format("{} x ", blocks.size()) : "";
  const std::string shape = std::all_of(blocks.begin(), blocks.end(), alike) ? first.shape.str() : "several shapes";
  return fmt::format("{}{} {}", times, shape, name_of(first.dtype));
}

std::optional<KindPanel> panel_of(const CheckpointReader& reader, const std::vector<const ShownTensor*>& blocks) {
  if (blocks.empty()) return std::nullopt;
  KindPanel panel;
  for (const ShownTensor* block : blocks) panel.statistics.push_back(*block->statistics);
  const ValueAxis axis = ValueAxis::suiting(merged(panel.statistics));
  for (const ShownTensor* block : blocks) panel.histograms.push_back(histogram_of(reader, *block->stored, axis, kBinsInPictures));
  return panel;
}

// By kind and block the root mean square of the weights, at the end of what is known of it already. What an earlier checkpoint
// does not have, as adapters that were added, has no change.
void add_change(const CheckpointReader& reader, const std::vector<Kind>& kinds, std::vector<KindRow>& rows) {
  ReadingLine line("reading " + reader.folder().filename().string());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto& blocks = kinds[i].groups.front();
    for (std::size_t block = 0; block < rows[i].change.size(); ++block) {
      const ManifestTensor* found = reader.manifest().find(blocks[block]->stored->name);
      if (found == nullptr) {
        rows[i].change.clear();
        break;
      }
      rows[i].change[block].push_back(statistics_of(reader, *found).root_mean_square());
    }
    line.update(static_cast<Bytes>(i + 1), static_cast<Bytes>(kinds.size()));
  }
}

}  // namespace

CheckpointPicture picture_of(const CheckpointReader& reader, const std::vector<ShownTensor>& tensors,
                             const std::vector<std::filesystem::path>& earlier) {
  const Gathering gathering(tensors);
  CheckpointPicture picture{
      fmt::format("{} (step {})", reader.folder().string(), reader.state().step), gathering.groups(), {}, {}};
  for (const Kind& kind : gathering.kinds()) {
    KindRow row{kind.name, facts_of(kind), {}, std::vector<std::vector<double>>(kind.groups.front().size())};
    for (const auto& blocks : kind.groups) row.panels.push_back(panel_of(reader, blocks));
    picture.rows.push_back(std::move(row));
  }
  for (const std::filesystem::path& folder : evenly(earlier, kMostSteps - 1)) {
    const CheckpointReader before(folder);
    picture.steps.push_back(before.state().step);
    add_change(before, gathering.kinds(), picture.rows);
  }
  picture.steps.push_back(reader.state().step);
  for (KindRow& row : picture.rows) {
    for (std::size_t block = 0; block < row.change.size(); ++block)
      row.change[block].push_back(row.panels.front()->statistics[block].root_mean_square());
  }
  return picture;
}

}  // namespace cohort
