#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "commands/ckpt/output.hpp"
#include "commands/ckpt/show.hpp"

namespace cohort {
namespace {

constexpr int kBins = 20;
constexpr Count kBarLetters = 50;

/// "dim 0 from 12 to 24, dim 2 from 0 to 8, elements 0 to 96 of these": which elements a part holds.
std::string extent_of(const TensorPart& part) {
  std::vector<std::string> words;
  const Box& box = part.box();
  for (std::size_t dim = 0; dim < box.count.size(); ++dim) {
    if (box.count[dim] == part.shape()[static_cast<int>(dim)]) continue;
    words.push_back(fmt::format("dim {} from {} to {}", dim, box.start[dim], box.end(dim)));
  }
  if (!part.holds_whole_box()) {
    words.push_back(fmt::format("elements {} to {}{}", part.begin(), part.begin() + part.elements(),
                                part.box_is_tensor() ? " in row-major order" : " of these"));
  }
  return words.empty() ? "all" : join(words);
}

std::string figures_of(const TensorStatistics& statistics) {
  const auto share = [&](Count count) {
    const double all = static_cast<double>(std::max<Count>(statistics.elements, 1));  // a tensor may be empty
    return fmt::format("{} ({:.3g} %)", count, 100.0 * static_cast<double>(count) / all);
  };
  Table table({"  norm", short_number(statistics.norm), "  root mean square", short_number(statistics.root_mean_square())});
  table.add({"  mean", short_number(statistics.mean), "  standard deviation", short_number(statistics.deviation)});
  table.add({"  min", short_number(statistics.min), "  max", short_number(statistics.max)});
  table.add({"  zeros", share(statistics.zeros), "  smallest above 0", short_number(statistics.smallest)});
  table.add({"  NaN", share(statistics.nans), "  infinite", share(statistics.infinities)});
  return table.str(4);
}

std::string drawn(const Histogram& histogram) {
  const Count tallest = std::max<Count>(1, histogram.tallest());
  Table table({"  from", "to", "elements", histogram.axis.linear() ? "" : "(bins grow away from zero)"});
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const Count count = histogram.counts[i];
    // A bin that holds anything shows at least a dot.
    const auto bar = std::string(static_cast<std::size_t>(count * kBarLetters / tallest), '#');
    table.add({"  " + short_number(histogram.axis.value(static_cast<double>(i) / kBins)),
               short_number(histogram.axis.value(static_cast<double>(i + 1) / kBins)), std::to_string(count),
               bar.empty() && count > 0 ? "." : bar});
  }
  return table.str(4);
}

}  // namespace

std::string tensor_details(const TensorReader& reader, const ShownTensor& tensor) {
  const ManifestTensor& stored = *tensor.stored;
  std::string text = fmt::format("{}  {} {}, {}, {}\n", stored.name, name_of(stored.dtype), stored.shape.str(),
                                 counted(stored.elements(), "element"), human_bytes(stored.bytes()));
  for (const ManifestPart& part : stored.parts) {
    text += fmt::format("  {} {}: {}\n", reader.manifest().files[part.file].name, part.dataset, extent_of(part.part));
  }
  if (!tensor.statistics || stored.elements() == 0) return text;
  return text + figures_of(*tensor.statistics) +
         drawn(histogram_of(reader, stored, ValueAxis::suiting(*tensor.statistics), kBins));
}

std::string file_contents(const TensorReader& reader, const std::vector<ShownTensor>& tensors) {
  std::string text;
  for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) {
    Table table({"  tensor", "holds", "elements", "of", "size"});
    Bytes sum = 0;
    for (const ShownTensor& tensor : tensors) {
      for (const ManifestPart& part : tensor.stored->parts) {
        if (part.file != file) continue;
        const Bytes bytes = part.part.elements() * size_of(tensor.stored->dtype);
        sum += bytes;
        table.add({"  " + tensor.stored->name, extent_of(part.part), std::to_string(part.part.elements()),
                   std::to_string(tensor.stored->elements()), human_bytes(bytes)});
      }
    }
    const ManifestFile& known = reader.manifest().files[file];
    text += fmt::format("{}: {} ({} of these tensors)\n{}", known.name, human_bytes(known.bytes), human_bytes(sum),
                        sum > 0 ? table.str(2) : "");
  }
  return text;
}

}  // namespace cohort
