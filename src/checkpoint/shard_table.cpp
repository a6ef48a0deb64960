#include "checkpoint/shard_table.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.hpp"
#include "checkpoint/format.hpp"

namespace cohort {
namespace {

constexpr int kRoot = 0;

std::string to_text(const std::vector<StateShard>& shards) {
  nlohmann::json list = nlohmann::json::array();
  for (const StateShard& s : shards) {
    list.push_back(
        {s.dataset, s.order, s.shape.vector(), s.map.run, s.map.stride, s.map.first, s.begin, s.elements.elements(), s.writes});
  }
  return list.dump();
}

std::vector<ShardEntry> from_text(const std::string& text, int rank) {
  std::vector<ShardEntry> entries;
  for (const auto& item : nlohmann::json::parse(text)) {
    const Shape shape(item[2].get<std::vector<Count>>());
    ShardMap map(shape, {});
    map.run = item[3];
    map.stride = item[4];
    map.first = item[5];
    entries.push_back({rank, {item[0], item[1], shape, map, item[6], {}, item[8]}, item[7]});
  }
  return entries;
}

/// Every rank's text, on rank 0.
std::vector<std::string> gather_texts(Communicator& comm, std::string text) {
  std::vector<std::string> texts;
  if (comm.rank() != kRoot) {
    const auto length = static_cast<std::int64_t>(text.size());
    comm.send(&length, 1, DType::i64, kRoot);
    comm.send(text.data(), length, DType::u8, kRoot);
    return texts;
  }
  texts.push_back(std::move(text));
  for (int rank = 1; rank < comm.size(); ++rank) {
    std::int64_t length = 0;
    comm.recv(&length, 1, DType::i64, rank);
    std::string& received = texts.emplace_back(static_cast<std::size_t>(length), ' ');
    comm.recv(received.data(), length, DType::u8, rank);
  }
  return texts;
}

}  // namespace

bool comes_before(const StateShard& a, const StateShard& b) {
  const auto key = [](const StateShard& s) {
    return std::tuple(!s.dataset.starts_with(kModelGroup), s.order, std::string_view(s.dataset), s.begin);
  };
  return key(a) < key(b);
}

std::vector<ShardedTensor> collect_shards(Communicator& comm, const std::vector<StateShard>& shards) {
  const std::vector<std::string> texts = gather_texts(comm, to_text(shards));
  std::vector<ShardEntry> entries;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    for (ShardEntry& entry : from_text(texts[rank], static_cast<int>(rank))) entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return comes_before(a.shard, b.shard); });
  std::vector<ShardedTensor> tensors;
  for (ShardEntry& entry : entries) {
    if (tensors.empty() || tensors.back().dataset != entry.shard.dataset) {
      tensors.push_back({entry.shard.dataset, entry.shard.shape, {}});
    }
    COHORT_CHECK(tensors.back().shape == entry.shard.shape, "{} has the shape {} on rank {} and {} on another",
                 entry.shard.dataset, entry.shard.shape.str(), entry.rank, tensors.back().shape.str());
    tensors.back().entries.push_back(std::move(entry));
  }
  return tensors;
}

}  // namespace cohort
