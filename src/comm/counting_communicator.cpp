#include "comm/counting_communicator.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include "base/counting_listener.hpp"
#include "base/error.hpp"

namespace cohort {
namespace {

using Members = std::shared_ptr<const std::vector<int>>;

// Never done before the caller waits: when that is decides what work hides it.
class ToldOperation : public Request::State {
 public:
  explicit ToldOperation(std::size_t id) : id_(id) {}
  bool test() override { return false; }
  void wait() override {
    if (CountingListener* const listener = counting_listener()) listener->waits(id_);
  }

 private:
  std::size_t id_;
};

class CountingCommunicator : public Communicator {
 public:
  CountingCommunicator(std::string name, int rank, Members members)
      : Communicator(std::move(name), rank, static_cast<int>(members->size())) {
    set_members(std::move(members));
  }
  std::string_view backend() const override { return "counting"; }

 protected:
  Recording recording() const override { return Recording::none; }
  Request do_all_reduce(void* data, Count elements, DType dtype, ReduceOp) override {
    return told("all_reduce", elements, dtype, data, data);
  }
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp) override {
    return told("reduce_scatter", size() * block_elements, dtype, send, recv);
  }
  Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) override {
    return told("all_gather", size() * block_elements, dtype, send, recv);
  }
  Request do_broadcast(void* data, Count elements, DType dtype, int root) override {
    return told("broadcast", elements, dtype, rank() == root ? data : nullptr, rank() == root ? nullptr : data);
  }
  // The receiver waits for a message; its sender has only to know that it has left.
  Request do_send(const void* data, Count elements, DType dtype, int, int) override {
    tell("send", elements, dtype, data, nullptr);
    return {};
  }
  Request do_recv(void* data, Count elements, DType dtype, int, int) override {
    return told("recv", elements, dtype, nullptr, data);
  }
  void do_barrier() override {}
  std::unique_ptr<Communicator> do_split(int, int, std::string) override {
    fail_operation("split", "a counting group knows its own colour alone: use split_by");
  }
  std::unique_ptr<Communicator> do_split_by(const ColorOf& color_of, std::string name) override {
    const int color = color_of(rank());
    if (color < 0) return nullptr;
    int place = 0;
    auto part = std::make_shared<std::vector<int>>();
    for (int other = 0; other < size(); ++other) {
      if (color_of(other) != color) continue;
      if (other == rank()) place = static_cast<int>(part->size());
      part->push_back(members()->at(static_cast<std::size_t>(other)));
    }
    return std::make_unique<CountingCommunicator>(std::move(name), place, std::move(part));
  }

 private:
  std::size_t tell(std::string_view operation, Count elements, DType dtype, const void* from, const void* to) const {
    CountingListener* const listener = counting_listener();
    if (listener == nullptr) return 0;
    return listener->communicates({operation, name(), members(), elements * size_of(dtype), from, to});
  }

  Request told(std::string_view operation, Count elements, DType dtype, const void* from, void* to) const {
    const std::size_t id = tell(operation, elements, dtype, from, to);
    if (counting_listener() == nullptr || size() == 1) return {};
    return Request(std::make_unique<ToldOperation>(id));
  }
};

}  // namespace

std::unique_ptr<Communicator> make_counting_communicator(std::string name, int rank, int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<CountingCommunicator>(std::move(name), rank, std::make_shared<std::vector<int>>(std::move(all)));
}

std::unique_ptr<Communicator> make_counting_communicator(const Communicator& host) {
  return std::make_unique<CountingCommunicator>(host.name(), host.rank(), host.members());
}

}  // namespace cohort
