// Lab 9: one way to write it.
#include <algorithm>
#include <cmath>
#include <cohort/lab09_checkpoints.hpp>
#include <cstring>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using cohort::lab::DiskFolder;
using cohort::lab::Link;

namespace {

const std::string kManifest = "manifest";

// What the manifest says: the parts of which save, and how many. A checkpoint is there when it is named here.
struct Manifest {
  long number = 0;
  std::size_t parts = 0;
};

Manifest read_manifest(DiskFolder& folder) {
  Manifest manifest;
  if (folder.exists(kManifest)) std::istringstream(folder.read(kManifest)) >> manifest.number >> manifest.parts;
  return manifest;
}

std::string name_of(const Manifest& manifest, std::size_t part) {
  return "save_" + std::to_string(manifest.number) + "_part_" + std::to_string(part);
}

}  // namespace

// 9.1
void save_atomically(DiskFolder& folder, std::span<const std::string> parts) {
  const Manifest manifest{.number = read_manifest(folder).number + 1, .parts = parts.size()};
  std::set<std::string> own{kManifest};
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::string name = name_of(manifest, part);  // no checkpoint has files of this name: they are written aside
    folder.write(name, parts[part]);
    folder.flush(name);
    own.insert(name);
  }
  const std::string aside = kManifest + ".new";
  folder.write(aside, std::to_string(manifest.number) + " " + std::to_string(manifest.parts));
  folder.flush(aside);
  folder.flush_names();  // the parts are on the disk before anything names them
  folder.rename(aside, kManifest);
  folder.flush_names();  // now the new one counts, and nothing needs the old one
  for (const std::string& name : folder.names()) {
    if (own.count(name) == 0) folder.remove(name);
  }
}

bool load_newest(DiskFolder& folder, std::vector<std::string>& parts) {
  if (!folder.exists(kManifest)) return false;
  const Manifest manifest = read_manifest(folder);
  parts.clear();
  for (std::size_t part = 0; part < manifest.parts; ++part) parts.push_back(folder.read(name_of(manifest, part)));
  return true;
}

namespace {

// What does not follow from the rest, each passed to `each` as bytes; `Trainer` may be const.
template <class Trainer, class Each>
void for_each_state(Trainer& trainer, const Each& each) {
  for (auto* values : {&trainer.master, &trainer.first, &trainer.second}) each(values->data(), values->size() * sizeof(float));
  each(&trainer.step, sizeof trainer.step);
  each(&trainer.random, sizeof trainer.random);
  each(&trainer.position, sizeof trainer.position);
  each(&trainer.loss_scale, sizeof trainer.loss_scale);
  each(&trainer.steps_since_overflow, sizeof trainer.steps_since_overflow);
}

}  // namespace

// 9.2
void save_checkpoint(const SmallTrainer& trainer, std::vector<std::byte>& bytes) {
  bytes.clear();
  for_each_state(trainer, [&](const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  });
}

bool load_checkpoint(std::span<const std::byte> bytes, SmallTrainer& trainer) {
  std::size_t needed = 0;
  for_each_state(trainer, [&](void*, std::size_t size) { needed += size; });
  if (bytes.size() != needed) return false;
  for_each_state(trainer, [&](void* data, std::size_t size) {
    if (size > 0) std::memcpy(data, bytes.data(), size);
    bytes = bytes.subspan(size);
  });
  for (std::size_t i = 0; i < trainer.master.size(); ++i) trainer.working[i] = cohort::lab::round_to_bf16(trainer.master[i]);
  trainer.learning_rate = 3e-3 / (1.0 + static_cast<double>(trainer.step) / 100.0);
  return true;
}

// 9.3
void gather_sharded(Link& link, std::span<const float> shard, std::span<const std::size_t> sizes, std::span<float> whole) {
  if (link.rank() != 0) {
    if (!shard.empty()) link.send(0, shard);
    return;
  }
  std::copy(shard.begin(), shard.end(), whole.begin());
  std::size_t begin = sizes[0];
  for (int rank = 1; rank < link.ranks(); ++rank) {
    const std::size_t size = sizes[static_cast<std::size_t>(rank)];
    if (size > 0) link.receive(rank, whole.subspan(begin, size));
    begin += size;
  }
}

// 9.4
void reshard_plan(std::span<const std::size_t> old_sizes, std::span<const std::size_t> new_sizes, std::vector<ShardMove>& moves) {
  std::size_t old_begin = 0, from = 0;  // shard `from` of the old layout begins at old_begin
  std::size_t new_begin = 0;
  for (std::size_t to = 0; to < new_sizes.size(); ++to) {
    const std::size_t new_end = new_begin + new_sizes[to];
    while (new_begin < new_end) {
      while (old_begin + old_sizes[from] <= new_begin) old_begin += old_sizes[from++];
      const std::size_t end = std::min(new_end, old_begin + old_sizes[from]);
      moves.push_back({.from = from, .to = to, .begin = new_begin, .elements = end - new_begin});
      new_begin = end;
    }
  }
}

// 9.5
void keep_last(std::span<const SavedCheckpoint> saved, const RetentionRule& retention, std::vector<std::int64_t>& deleted) {
  if (retention.last == 0) return;
  std::vector<SavedCheckpoint> whole;
  std::copy_if(saved.begin(), saved.end(), std::back_inserter(whole), [](const SavedCheckpoint& one) { return one.whole; });
  std::sort(whole.begin(), whole.end(), [](const auto& a, const auto& b) { return a.step > b.step; });  // the newest first
  const SavedCheckpoint* best = nullptr;
  for (const SavedCheckpoint& one : whole) {
    if (std::isnan(one.validation_loss)) continue;
    if (best == nullptr || one.validation_loss < best->validation_loss) best = &one;
  }
  for (std::size_t i = static_cast<std::size_t>(retention.last); i < whole.size(); ++i) {
    const bool is_milestone = retention.every > 0 && whole[i].step % retention.every == 0;
    const bool is_best = retention.best && best == &whole[i];
    if (!is_milestone && !is_best) deleted.push_back(whole[i].step);
  }
  std::sort(deleted.begin(), deleted.end());
}
