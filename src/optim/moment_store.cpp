#include "optim/moment_store.hpp"

#include <numeric>

#include "tensor/memory_account.hpp"

namespace cohort {
namespace {

constexpr Bytes kElementBytes = 4;

class MomentsInMemory : public MomentStore {
 public:
  explicit MomentsInMemory(const std::vector<Count>& segments) {
    for (const Count elements : segments)
      moments_.push_back({Tensor::zeros("optimizer.m", {elements}), Tensor::zeros("optimizer.v", {elements})});
  }

  void fetch(std::size_t lane, const ElementBlock& block) override {
    const BlockMoments& all = moments_[block.segment];
    lanes_[lane] = {all.m.slice(block.begin, block.end), all.v.slice(block.begin, block.end)};
  }
  BlockMoments fetched(std::size_t lane) override { return lanes_[lane]; }
  void put_back(std::size_t) override {}
  void finish(std::size_t) override {}
  Optimizer::Moments of_segment(std::size_t segment) const override { return {moments_[segment].m, moments_[segment].v}; }

 private:
  std::vector<BlockMoments> moments_;
  std::array<BlockMoments, kLanes> lanes_;
};

class MomentsInFile : public MomentStore {
 public:
  MomentsInFile(const std::vector<Count>& segments, Count block_elements, const std::filesystem::path& file)
      : segments_(segments) {
    for (const Count elements : segments) {
      offsets_.push_back(v_offset_);
      v_offset_ += elements * kElementBytes;
    }
    for (Lane& lane : lanes_) {
      lane.memory = {Tensor::zeros("optimizer.m_block", {block_elements}), Tensor::zeros("optimizer.v_block", {block_elements})};
    }
    file_ = std::make_shared<ScratchFile>(file, 2 * v_offset_);
    count_disk(2 * v_offset_);
  }

  void fetch(std::size_t number, const ElementBlock& block) override {
    Lane& lane = lanes_[number];
    const Count elements = block.end - block.begin;
    lane.moments = {lane.memory.m.slice(0, elements), lane.memory.v.slice(0, elements)};
    lane.offset = offsets_[block.segment] + block.begin * kElementBytes;
    lane.transfers = {file_->read(lane.offset, lane.moments.m.raw(), lane.moments.m.bytes()),
                      file_->read(v_offset_ + lane.offset, lane.moments.v.raw(), lane.moments.v.bytes())};
  }
  BlockMoments fetched(std::size_t lane) override {
    finish(lane);
    return lanes_[lane].moments;
  }
  void put_back(std::size_t number) override {
    Lane& lane = lanes_[number];
    lane.transfers = {file_->write(lane.offset, lane.moments.m.raw(), lane.moments.m.bytes()),
                      file_->write(v_offset_ + lane.offset, lane.moments.v.raw(), lane.moments.v.bytes())};
  }
  void finish(std::size_t lane) override {
    for (ScratchFile::Transfer& transfer : lanes_[lane].transfers) transfer.wait();
  }
  Optimizer::Moments of_segment(std::size_t segment) const override {
    const Bytes offset = offsets_[segment];
    return {{file_, offset, segments_[segment]}, {file_, v_offset_ + offset, segments_[segment]}};
  }

 private:
  struct Lane {
    BlockMoments memory;   // of the largest block
    BlockMoments moments;  // of the block at work, in this memory
    Bytes offset = 0;      // of its m in the file
    std::array<ScratchFile::Transfer, 2> transfers;
  };
  std::vector<Count> segments_;
  std::vector<Bytes> offsets_;  // of each segment's m
  Bytes v_offset_ = 0;          // from an m to its v
  std::shared_ptr<ScratchFile> file_;
  std::array<Lane, kLanes> lanes_;  // after the file, which outlives their transfers
};

}  // namespace

std::unique_ptr<MomentStore> make_moments_in_memory(const std::vector<Count>& segments) {
  return std::make_unique<MomentsInMemory>(segments);
}

std::unique_ptr<MomentStore> make_moments_in_file(const std::vector<Count>& segments, Count block_elements,
                                                  const std::filesystem::path& file) {
  return std::make_unique<MomentsInFile>(segments, block_elements, file);
}

}  // namespace cohort
