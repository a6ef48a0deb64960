#include "checkpoint/whole_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/model_file.hpp"
#include "comm/agreement.hpp"
#include "comm/mpi_communicator.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort {
namespace {

constexpr int kRoot = 0;
constexpr Count kWindowBlocks = 8;

Count blocks_of(Count elements) { return ManifestPart::block_count(elements, kBlockElements); }

/// Brings the elements of a window to the rank that writes it.
class Exchange {
 public:
  Exchange(Communicator& comm, const std::vector<OutgoingPart>& own, int writers) : comm_(comm), own_(own), writers_(writers) {}

  /// Fills `into` with the elements of this rank's window of the tensor in this round. // Collective over: comm
  void window(const TensorFacts& tensor, Count index, Count round, std::vector<std::byte>& into) {
    width_ = size_of(tensor.dtype);
    window_ = &into;
    own_window_ = window_of(tensor.shape.elements(), index, writers_, comm_.rank(), round);
    if (comm_.rank() < writers_) window_->resize(static_cast<std::size_t>(own_window_.elements * width_));
    std::vector<Request> requests;
    std::vector<std::vector<std::byte>> outgoing;
    std::vector<Arrival> arrivals;
    outgoing.reserve(tensor.parts.size() * static_cast<std::size_t>(writers_));  // requests keep addresses of what it holds
    arrivals.reserve(tensor.parts.size());
    for (int writer = 0; writer < writers_; ++writer) {
      const Window window = window_of(tensor.shape.elements(), index, writers_, writer, round);
      for (const RemotePart* remote : tensor.parts) {
        const bool gives = remote->rank == comm_.rank();
        const bool takes = writer == comm_.rank();
        if (!gives && !takes) continue;
        // The window is a run of the tensor, and a part's elements are in the order of the tensor: so a run of the part, too.
        const TensorPart& part = remote->part.part;
        const Count first = part.first_from(window.begin);
        const Count n = part.first_from(window.begin + window.elements) - first;
        if (n == 0) continue;
        if (gives && takes) {
          read(*remote, first, n, [&](Count at, const std::byte* data, Count run) { place(part.slice(at, run), data); });
        } else if (gives) {
          outgoing.push_back(packed(*remote, first, n));
          requests.push_back(comm_.send_async(outgoing.back().data(), n * width_, DType::u8, writer));
        } else {
          arrivals.push_back({part.slice(first, n), std::vector<std::byte>(static_cast<std::size_t>(n * width_))});
          requests.push_back(comm_.recv_async(arrivals.back().packed.data(), n * width_, DType::u8, remote->rank));
        }
      }
    }
    for (Request& request : requests) request.wait();
    for (const Arrival& arrival : arrivals) place(arrival.elements, arrival.packed.data());
  }

 private:
  struct Arrival {
    TensorPart elements;
    std::vector<std::byte> packed;
  };

  void place(const TensorPart& elements, const std::byte* data) {
    for_each_run(elements, [&](Count i, Count at, Count n) {
      std::memcpy(window_->data() + static_cast<std::size_t>((at - own_window_.begin) * width_),
                  data + static_cast<std::size_t>(i * width_), static_cast<std::size_t>(n * width_));
    });
  }

  std::vector<std::byte> packed(const RemotePart& remote, Count first, Count n) {
    std::vector<std::byte> packed(static_cast<std::size_t>(n * width_));
    read(remote, first, n, [&](Count at, const std::byte* data, Count run) {
      std::memcpy(packed.data() + static_cast<std::size_t>((at - first) * width_), data, static_cast<std::size_t>(run * width_));
    });
    return packed;
  }

  /// Calls use(at, data, n) for elements [first, first + elements) of this rank's part, a block's worth at a time.
  template <class Use>
  void read(const RemotePart& remote, Count first, Count elements, const Use& use) {
    StoredElements stored(own_part(remote));
    for (Count at = first; at < first + elements; at += kBlockElements) {
      const Count n = std::min(kBlockElements, first + elements - at);
      use(at, stored.read(at, n), n);
    }
  }

  const OutgoingPart& own_part(const RemotePart& remote) {
    if (current_ != &remote) {
      const OutgoingPart& like = remote.part;
      const auto own = std::find_if(own_.begin(), own_.end(), [&](const OutgoingPart& part) {
        return part.tensor == like.tensor && part.part == like.part;
      });
      COHORT_CHECK(own != own_.end(), "this rank has no part of {} at {}", like.tensor, like.part.begin());
      current_ = &remote;
      own_part_ = &*own;
    }
    return *own_part_;
  }

  Communicator& comm_;
  const std::vector<OutgoingPart>& own_;
  int writers_;
  Bytes width_ = 0;  // of an element
  Window own_window_;
  std::vector<std::byte>* window_ = nullptr;
  const RemotePart* current_ = nullptr;     // the part that was read last, ...
  const OutgoingPart* own_part_ = nullptr;  // ... in own_
};

/// model.h5 while it is written, and the checksums of the blocks that this rank writes.
class WholeFile {
 public:
  WholeFile(Communicator& comm, const std::filesystem::path& folder, const std::vector<TensorFacts>& tensors,
            const StorageOptions& storage)
      : comm_(comm), tensors_(tensors), collective_(storage.collective && comm.size() > 1) {
    const std::string path = (folder / kModelFile).string();
    agree(comm_, "creating the checkpoint", [&] {
      if (collective_) {
        file_.emplace(hdf5::File::create_parallel(path, mpi_handle(comm_), ExitCode::io, file_options(storage)));
      } else if (comm_.rank() == kRoot) {
        file_.emplace(hdf5::File::create(path, ExitCode::io, file_options(storage)));
      }
      if (!file_) return;
      for (const TensorFacts& tensor : tensors_) {
        file_->create_dataset(tensor.name.substr(1), hdf5::element_of(tensor.dtype), tensor.shape.vector(),
                              dataset_layout(storage));
      }
    });
  }

  int writers() const { return collective_ ? comm_.size() : 1; }

  /// Writes this rank's window. Every rank of a collective file comes, also with an empty one.
  void write(Count index, const Window& window, const std::byte* data) {
    if (!file_ || (!collective_ && window.elements == 0)) return;
    const TensorFacts& tensor = tensors_[static_cast<std::size_t>(index)];
    const hdf5::Element element = hdf5::element_of(tensor.dtype);
    // Summed up while it is written.
    auto sums = std::async(std::launch::async, [&] { return block_sums(data, window.elements, tensor.dtype); });
    hdf5::Dataset dataset = file_->open_dataset(tensor.name.substr(1));
    if (collective_) {
      const Count largest = std::min(tensor.shape.elements(), kWindowBlocks * kBlockElements);
      dataset.write_range_collectively(window.begin, window.elements, data, element,
                                       hdf5::Dataset::collective_rounds(largest, element));
    } else {
      dataset.write_range(window.begin, window.elements, data, element);
    }
    Count block = window.begin / kBlockElements;
    for (const std::uint32_t sum : sums.get()) sums_.push_back({index, block++, sum});
  }

  void close(const TrainingState& state) {
    agree(comm_, "closing the checkpoint", [&] {
      if (!file_) return;
      write_state(*file_, state);
      file_->close();
    });
  }

  const std::vector<std::array<std::int64_t, 3>>& sums() const { return sums_; }

 private:
  Communicator& comm_;
  const std::vector<TensorFacts>& tensors_;
  bool collective_;
  std::optional<hdf5::File> file_;
  std::vector<std::array<std::int64_t, 3>> sums_;  // tensor, block, checksum
};

// All windows of all tensors. A rank that cannot write goes on exchanging until all have heard of it.
void write_tensors(Communicator& comm, const std::vector<OutgoingPart>& own, const std::vector<TensorFacts>& tensors,
                   WholeFile& file) {
  Exchange exchange(comm, own, file.writers());
  std::array<std::vector<std::byte>, 2> windows;  // one is filled while the other is written
  std::future<void> writing;
  const auto end_writing = [&] {
    agree(comm, "saving the checkpoint", [&] {
      if (writing.valid()) writing.get();
    });
  };
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Count elements = tensors[t].shape.elements();
    const auto index = static_cast<Count>(t);
    for (Count round = 0; round < rounds_of(elements, file.writers()); ++round) {
      exchange.window(tensors[t], index, round, windows[0]);
      end_writing();
      std::swap(windows[0], windows[1]);
      if (comm.rank() >= file.writers()) continue;
      const Window window = window_of(elements, index, file.writers(), comm.rank(), round);
      // Collective writes communicate, too: in this thread, since MPI need not let two.
      const std::launch when = file.writers() > 1 ? std::launch::deferred : std::launch::async;
      writing = std::async(when, [&file, &windows, index, window] { file.write(index, window, windows[1].data()); });
    }
  }
  end_writing();
}

}  // namespace

Window window_of(Count elements, Count tensor, int writers, int writer, Count round) {
  const Count turn = (writer + tensor) % writers;
  const Count blocks = blocks_of(elements);
  const Count end = blocks * (turn + 1) / writers;
  const Count first = std::min(blocks * turn / writers + round * kWindowBlocks, end);
  const Count last = std::min(first + kWindowBlocks, end);
  const Count begin = std::min(first * kBlockElements, elements);
  return {begin, std::min(last * kBlockElements, elements) - begin};
}

Count rounds_of(Count elements, int writers) {
  const Count most = (blocks_of(elements) + writers - 1) / writers;  // blocks of the writer that has most
  return (most + kWindowBlocks - 1) / kWindowBlocks;
}

Manifest write_whole_file(Communicator& comm, const std::filesystem::path& folder, const std::vector<OutgoingPart>& own,
                          const TrainingState& state, const StorageOptions& storage) {
  const std::vector<RemotePart> all = exchange_outgoing(comm, own);
  const std::vector<TensorFacts> tensors = tensors_of(all);
  Manifest manifest;
  agree(comm, "saving the checkpoint", [&] {
    for (const TensorFacts& facts : tensors) {
      ManifestTensor given{facts.name, facts.dtype, facts.shape, {}};
      for (const RemotePart* remote : facts.parts) given.parts.push_back({0, "", remote->part.part, kBlockElements, {}});
      check_coverage(given);
    }
  });
  WholeFile file(comm, folder, tensors, storage);
  write_tensors(comm, own, tensors, file);
  file.close(state);
  const std::vector<std::string> sums = gather_texts(comm, nlohmann::json(file.sums()).dump(), kRoot);
  agree(comm, "saving the checkpoint", [&] {
    if (comm.rank() != kRoot) return;
    manifest.files.push_back(finished_file(folder, std::string(kModelFile)));
    std::vector<ManifestTensor> list;
    for (const TensorFacts& facts : tensors) {
      list.push_back({facts.name, facts.dtype, facts.shape, {}});
      const Count blocks = blocks_of(facts.shape.elements());
      if (blocks == 0) continue;
      list.back().parts.push_back(
          {0, facts.name, TensorPart(facts.shape), kBlockElements, std::vector<std::uint32_t>(static_cast<std::size_t>(blocks))});
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
