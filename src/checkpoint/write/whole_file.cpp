#include "checkpoint/write/whole_file.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/root_rank.hpp"
#include "checkpoint/write/model_file.hpp"
#include "checkpoint/write/window_exchange.hpp"
#include "comm/consensus.hpp"
#include "comm/mpi_communicator.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort {
namespace {

Count blocks_of_tensor(Count elements) { return ManifestPart::block_count(elements, kBlockElements); }

/// Keeps the disk busy with what was written of a file, beside the writing: at the end there is little left to wait for.
class EarlyFlush {
 public:
  explicit EarlyFlush(std::filesystem::path path) : path_(std::move(path)) {}
  /// More was written.
  void go_on() {
    if (running_.valid() && running_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    running_ = std::async(std::launch::async, [this] { begin_flush(path_); });
  }

 private:
  std::filesystem::path path_;
  std::future<void> running_;
};

/// model.h5 while it is written, and the checksums of the blocks that this rank writes.
class WholeFile {
 public:
  WholeFile(Communicator& comm, const std::filesystem::path& folder, const std::vector<PlannedTensor>& tensors,
            const StorageOptions& storage)
      : comm_(comm), tensors_(tensors), collective_(storage.collective && comm.size() > 1), flush_(folder / kModelFile) {
    const std::string path = (folder / kModelFile).string();
    fail_together(comm_, "creating the checkpoint", [&] {
      if (collective_) {
        file_.emplace(hdf5::File::create_parallel(path, mpi_handle(comm_), ExitCode::io, file_options(storage)));
      } else if (comm_.rank() == kRoot) {
        file_.emplace(hdf5::File::create(path, ExitCode::io, file_options(storage)));
      }
      if (!file_) return;
      for (const PlannedTensor& tensor : tensors_) {
        file_->create_dataset(tensor.name.substr(1), hdf5::element_of(tensor.dtype), tensor.shape.vector(),
                              dataset_layout(storage));
      }
    });
  }

  int writers() const { return collective_ ? comm_.size() : 1; }

  /// Writes this rank's window. Every rank of a collective file comes, also with an empty one.
  void write(Count index, const TensorPart& window, const std::byte* data) {
    if (!file_ || (!collective_ && window.elements() == 0)) return;
    const PlannedTensor& tensor = tensors_[static_cast<std::size_t>(index)];
    const hdf5::Element element = hdf5::element_of(tensor.dtype);
    // Summed up while it is written.
    auto sums = std::async(std::launch::async, [&] { return block_sums(data, window.elements(), tensor.dtype); });
    hdf5::Dataset dataset = file_->open_dataset(tensor.name.substr(1));
    if (collective_) {
      const Count largest = largest_window(tensor.shape.elements());
      dataset.write_range_collectively(window.begin(), window.elements(), data, element,
                                       hdf5::Dataset::collective_rounds(largest, element));
    } else {
      dataset.write_range(window.begin(), window.elements(), data, element);
    }
    flush_.go_on();
    Count block = window.begin() / kBlockElements;
    for (const std::uint32_t sum : sums.get()) sums_.push_back({index, block++, sum});
  }

  void close(const TrainingState& state) {
    fail_together(comm_, "closing the checkpoint", [&] {
      if (!file_) return;
      write_state(*file_, state);
      file_->close();
    });
  }

  const std::vector<std::array<std::int64_t, 3>>& sums() const { return sums_; }

 private:
  Communicator& comm_;
  const std::vector<PlannedTensor>& tensors_;
  bool collective_;
  std::optional<hdf5::File> file_;
  std::vector<std::array<std::int64_t, 3>> sums_;  // tensor, block, checksum
  EarlyFlush flush_;
};

// All windows of all tensors. A rank that cannot read or write goes on exchanging until all have heard of it.
void write_tensors(Communicator& comm, const std::vector<WriteItem>& own, const std::vector<PlannedTensor>& tensors,
                   WholeFile& file) {
  std::array<WindowElements, 2> windows;  // one is filled while the other is written
  Exchange exchange(comm, own);
  std::future<void> writing;
  const auto end_writing = [&] {
    fail_together(comm, "saving the checkpoint", [&] {
      if (writing.valid()) writing.get();
      exchange.rethrow_failure();
    });
  };
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Count elements = tensors[t].shape.elements();
    const auto index = static_cast<Count>(t);
    const std::vector<int> writers = writers_of(tensors[t], file.writers());
    for (Count round = 0; round < rounds_of(elements, static_cast<Count>(writers.size())); ++round) {
      const TensorPart window = exchange.window(tensors[t], writers, round, windows[0]);
      end_writing();
      std::swap(windows[0], windows[1]);
      if (comm.rank() >= file.writers()) continue;
      // Collective writes communicate, too: in this thread, since MPI need not let two.
      const std::launch when = file.writers() > 1 ? std::launch::deferred : std::launch::async;
      writing = std::async(when, [&file, &windows, index, window] { file.write(index, window, windows[1].data()); });
    }
  }
  end_writing();
}

}  // namespace

Manifest write_whole_file(Communicator& comm, const std::filesystem::path& folder, const std::vector<WriteItem>& own,
                          const TrainingState& state, const StorageOptions& storage) {
  const std::vector<PlannedTensor> tensors = exchange_write_plan(comm, own);
  Manifest manifest;
  WholeFile file(comm, folder, tensors, storage);
  write_tensors(comm, own, tensors, file);
  file.close(state);
  const std::vector<std::string> sums = gather_texts(comm, nlohmann::json(file.sums()).dump(), kRoot);
  fail_together(comm, "saving the checkpoint", [&] {
    if (comm.rank() != kRoot) return;
    manifest.files.push_back(finished_file(folder, std::string(kModelFile)));
    std::vector<ManifestTensor> list;
    for (const PlannedTensor& write_plan : tensors) {
      list.push_back({write_plan.name, write_plan.dtype, write_plan.shape, {}});
      const Count blocks = blocks_of_tensor(write_plan.shape.elements());
      if (blocks == 0) continue;
      list.back().parts.push_back({0, write_plan.name, TensorPart(write_plan.shape), kBlockElements,
                                   std::vector<std::uint32_t>(static_cast<std::size_t>(blocks))});
    }
    for (const std::string& text : sums) {
      for (const auto& [tensor, block, sum] : nlohmann::json::parse(text).get<std::vector<std::array<std::size_t, 3>>>()) {
        list.at(tensor).parts.front().crc32.at(block) = static_cast<std::uint32_t>(sum);
      }
    }
    for (ManifestTensor& tensor : list) manifest.add(std::move(tensor));
  });
  return manifest;
}

}  // namespace cohort
