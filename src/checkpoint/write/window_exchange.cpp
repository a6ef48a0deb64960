#include "checkpoint/write/window_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/format/manifest.hpp"

namespace cohort {
namespace {

constexpr Count kWindowBlocks = 8;

Count blocks_of(Count elements) { return ManifestPart::block_count(elements, kBlockElements); }

/// Calls body(at, n) for elements [first, first + elements) of a part, a block's worth at a time.
template <class Body>
void for_each_block(Count first, Count elements, const Body& body) {
  for (Count at = first; at < first + elements; at += kBlockElements) body(at, std::min(kBlockElements, first + elements - at));
}

std::unique_ptr<std::byte[]> make_room(Bytes bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
}

}  // namespace

std::vector<int> writers_of(const PlannedTensor& tensor, int writers) {
  std::vector<int> givers;
  std::vector<std::uint8_t> gives(static_cast<std::size_t>(writers), 0);
  for (const auto& [rank, part] : tensor.parts) {
    if (rank >= writers || gives[static_cast<std::size_t>(rank)] != 0) continue;
    gives[static_cast<std::size_t>(rank)] = 1;
    givers.push_back(rank);
  }
  const Count ranges = std::clamp<Count>(blocks_of(tensor.shape.elements()), 1, writers);
  const auto giver_of = [&](Count range) { return range * static_cast<Count>(givers.size()) / ranges; };
  std::vector<int> order;
  int other = 0;
  for (Count range = 0; range < ranges; ++range) {
    if (!givers.empty() && (range == 0 || giver_of(range) != giver_of(range - 1))) {
      order.push_back(givers[static_cast<std::size_t>(giver_of(range))]);
      continue;
    }
    while (gives[static_cast<std::size_t>(other)] != 0) ++other;
    order.push_back(other++);
  }
  return order;
}

TensorPart window_of(const Shape& shape, Count ranges, Count range, Count round) {
  const Count elements = shape.elements();
  const Count blocks = blocks_of(elements);
  const Count end = blocks * (range + 1) / ranges;
  const Count first = std::min(blocks * range / ranges + round * kWindowBlocks, end);
  const Count last = std::min(first + kWindowBlocks, end);
  const Count begin = std::min(first * kBlockElements, elements);
  return {shape, begin, std::min(last * kBlockElements, elements) - begin};
}

Count rounds_of(Count elements, Count ranges) {
  const Count most = (blocks_of(elements) + ranges - 1) / ranges;  // blocks of the largest range
  return (most + kWindowBlocks - 1) / kWindowBlocks;
}

Count largest_window(Count elements) { return std::min(elements, kWindowBlocks * kBlockElements); }

void WindowElements::clear() {
  data_ = nullptr;
  borrowed_ = Tensor();
}

void WindowElements::borrow(Tensor elements) {
  borrowed_ = std::move(elements);
  data_ = static_cast<const std::byte*>(borrowed_.raw());
}

std::byte* WindowElements::room(Bytes bytes) {
  if (own_bytes_ < bytes) {
    own_.reset();  // before the larger one is there
    own_ = make_room(bytes);
    own_bytes_ = bytes;
  }
  data_ = own_.get();
  return own_.get();
}

TensorPart Exchange::window(const PlannedTensor& tensor, const std::vector<int>& writers, Count round, WindowElements& into) {
  const auto ranges = static_cast<Count>(writers.size());
  const auto window_of_range = [&](Count range) { return window_of(tensor.shape, ranges, range, round); };
  const auto own_range = std::find(writers.begin(), writers.end(), comm_.rank());
  width_ = size_of(tensor.dtype);
  own_window_ = own_range == writers.end() ? TensorPart(tensor.shape, 0, 0) : window_of_range(own_range - writers.begin());
  into_ = &into;
  into.clear();
  for (Count range = 0; range < ranges; ++range) {
    const int writer = writers[static_cast<std::size_t>(range)];
    const TensorPart window = window_of_range(range);
    for (const auto& [giver, part] : tensor.parts) {
      const bool gives = giver == comm_.rank();
      const bool takes = writer == comm_.rank();
      if (!gives && !takes) continue;
      // The window is a run of the tensor, and a part's elements are in the order of the tensor: so a run of the part, too.
      const Count first = part.first_from(window.begin());
      const Count n = part.first_from(window.begin() + window.elements()) - first;
      if (n == 0) continue;
      if (gives && takes) {
        bring_own(own_part(tensor.name, part), first, n);
      } else if (gives) {
        send(own_part(tensor.name, part), first, n, writer);
      } else {
        receive(part, giver, first, n);
      }
    }
  }
  for (Request& request : requests_) request.wait();
  for (const Arrival& arrival : arrivals_) scatter(arrival.elements, arrival.packed.get());
  requests_.clear();
  messages_.clear();
  arrivals_.clear();
  return own_window_;
}

void Exchange::bring_own(const WriteItem& own, Count first, Count n) {
  attempt([&] {
    StoredElements stored(own);
    const bool is_run = own.part.run_from(first) >= n;
    if (is_run && n == own_window_.elements()) {
      if (Tensor kept = stored.kept(first, n); kept.defined()) return into_->borrow(std::move(kept));
    }
    for_each_block(first, n, [&](Count at, Count count) {
      if (is_run) {
        stored.read_to(at, count, place_of(own.part.global(at)));
      } else {
        scatter(own.part.slice(at, count), stored.read(at, count));
      }
    });
  });
}

void Exchange::send(const WriteItem& own, Count first, Count n, int writer) {
  Message message;
  attempt([&] {
    StoredElements stored(own);
    message.kept = stored.kept(first, n);
    if (message.kept.defined()) return;
    message.packed = make_room(n * width_);
    for_each_block(first, n,
                   [&](Count at, Count count) { stored.read_to(at, count, message.packed.get() + (at - first) * width_); });
  });
  if (!message.kept.defined() && !message.packed) message.packed = make_room(n * width_);  // after a failure: the writer waits
  const void* const data = message.kept.defined() ? message.kept.raw() : message.packed.get();
  requests_.push_back(comm_.send_async(data, n * width_, DType::u8, writer));
  messages_.push_back(std::move(message));
}

void Exchange::receive(const TensorPart& part, int giver, Count first, Count n) {
  std::byte* into = nullptr;
  if (part.run_from(first) >= n) {
    into = place_of(part.global(first));
  } else {
    into = arrivals_.emplace_back(part.slice(first, n), make_room(n * width_)).packed.get();
  }
  requests_.push_back(comm_.recv_async(into, n * width_, DType::u8, giver));
}

std::byte* Exchange::place_of(Count at) {
  return into_->room(own_window_.elements() * width_) + (at - own_window_.begin()) * width_;
}

void Exchange::scatter(const TensorPart& elements, const std::byte* packed) {
  std::byte* const window = place_of(own_window_.begin());
  for_each_run(elements, [&](Count i, Count at, Count n) {
    std::memcpy(window + (at - own_window_.begin()) * width_, packed + i * width_, static_cast<std::size_t>(n * width_));
  });
}

const WriteItem& Exchange::own_part(const std::string& tensor, const TensorPart& part) const {
  const auto own = std::find_if(own_.begin(), own_.end(),
                                [&](const WriteItem& given) { return given.tensor == tensor && given.part == part; });
  COHORT_CHECK(own != own_.end(), "this rank has no part of {} at {}", tensor, part.begin());
  return *own;
}

void Exchange::attempt(const std::function<void()>& read) {
  if (failure_) return;
  try {
    read();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace cohort
