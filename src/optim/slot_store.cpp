#include "optim/slot_store.hpp"

#include <algorithm>
#include <array>

#include "tensor/memory_account.hpp"

namespace cohort {
namespace {

constexpr Bytes kElementBytes = 4;

class SlotsInMemory : public SlotStore {
 public:
  explicit SlotsInMemory(const std::vector<SlotRun>& runs) {
    for (const SlotRun& run : runs) {
      std::vector<Tensor>& slots = slots_.emplace_back();
      for (const SlotSpec& slot : run.slots) slots.push_back(Tensor::zeros("optimizer." + slot.name, {run.elements}, slot.dtype));
    }
  }

  void fetch(std::size_t lane, const ElementBlock& block) override {
    lanes_[lane].clear();
    for (const Tensor& slot : slots_[block.run]) lanes_[lane].push_back(slot.slice(block.begin, block.end));
  }
  std::vector<Tensor> fetched(std::size_t lane) override { return lanes_[lane]; }
  void put_back(std::size_t) override {}
  void finish(std::size_t) override {}
  std::vector<StateElements> of_run(std::size_t run) const override { return {slots_[run].begin(), slots_[run].end()}; }

 private:
  std::vector<std::vector<Tensor>> slots_;
  std::array<std::vector<Tensor>, kLanes> lanes_;
};

class SlotsInFile : public SlotStore {
 public:
  SlotsInFile(const std::vector<SlotRun>& runs, Count block_elements, const std::filesystem::path& file) : runs_(runs) {
    offsets_.resize(runs.size());
    std::vector<SlotSpec> most;  // of one run: they share the lanes' memory
    for (const SlotRun& run : runs) most = run.slots.size() > most.size() ? run.slots : most;
    Bytes end = 0;
    for (std::size_t slot = 0; slot < most.size(); ++slot) {
      for (std::size_t run = 0; run < runs.size(); ++run) {
        if (slot >= runs[run].slots.size()) continue;
        offsets_[run].push_back(end);
        end += runs[run].elements * kElementBytes;
      }
    }
    for (Lane& lane : lanes_) {
      for (const SlotSpec& slot : most)
        lane.memory.push_back(Tensor::zeros("optimizer." + slot.name + "_block", {block_elements}, slot.dtype));
    }
    file_ = std::make_shared<ScratchFile>(file, end);
    count_disk(end);
  }

  void fetch(std::size_t number, const ElementBlock& block) override {
    Lane& lane = lanes_[number];
    lane.slots.clear();
    lane.offsets.clear();
    lane.transfers.clear();
    for (std::size_t slot = 0; slot < offsets_[block.run].size(); ++slot) {
      const Tensor& part = lane.slots.emplace_back(lane.memory[slot].slice(0, block.end - block.begin));
      const Bytes offset = lane.offsets.emplace_back(offsets_[block.run][slot] + block.begin * kElementBytes);
      lane.transfers.push_back(file_->read(offset, part.raw(), part.bytes()));
    }
  }
  std::vector<Tensor> fetched(std::size_t lane) override {
    finish(lane);
    return lanes_[lane].slots;
  }
  void put_back(std::size_t number) override {
    Lane& lane = lanes_[number];
    lane.transfers.clear();
    for (std::size_t slot = 0; slot < lane.slots.size(); ++slot)
      lane.transfers.push_back(file_->write(lane.offsets[slot], lane.slots[slot].raw(), lane.slots[slot].bytes()));
  }
  void finish(std::size_t lane) override {
    for (ScratchFile::Transfer& transfer : lanes_[lane].transfers) transfer.wait();
  }
  std::vector<StateElements> of_run(std::size_t run) const override {
    std::vector<StateElements> slots;
    for (const Bytes offset : offsets_[run]) slots.emplace_back(file_, offset, runs_[run].elements);
    return slots;
  }

 private:
  struct Lane {
    std::vector<Tensor> memory;  // of the largest block
    std::vector<Tensor> slots;   // of the block at work, in this memory
    std::vector<Bytes> offsets;  // of these in the file
    std::vector<ScratchFile::Transfer> transfers;
  };
  std::vector<SlotRun> runs_;
  std::vector<std::vector<Bytes>> offsets_;  // of each run's slots
  std::shared_ptr<ScratchFile> file_;
  std::array<Lane, kLanes> lanes_;  // after the file, which outlives their transfers
};

}  // namespace

std::unique_ptr<SlotStore> make_slots_in_memory(const std::vector<SlotRun>& runs) {
  return std::make_unique<SlotsInMemory>(runs);
}

std::unique_ptr<SlotStore> make_slots_in_file(const std::vector<SlotRun>& runs, Count block_elements,
                                              const std::filesystem::path& file) {
  return std::make_unique<SlotsInFile>(runs, block_elements, file);
}

}  // namespace cohort
