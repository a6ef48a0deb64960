#include "comm/counting_communicator.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include "base/counting_listener.hpp"
#include "base/error.hpp"
#include "base/work_tape.hpp"

namespace cohort {
namespace {

using Members = std::shared_ptr<const std::vector<int>>;

// Never done before the caller waits: when that is decides what work hides it.
class NotedOperation : public Request::State {
 public:
  explicit NotedOperation(std::size_t id) : id_(id) {}
  bool test() override { return false; }
  void wait() override {
    if (WorkTape* const tape = WorkTape::of_thread()) tape->wait(id_);
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
    tell("all_reduce", elements, dtype, data, data);
    return noted("all_reduce", elements, dtype);
  }
  Request do_reduce_scatter(const void* send, void* recv, Count block_elements, DType dtype, ReduceOp) override {
    tell("reduce_scatter", size() * block_elements, dtype, send, recv);
    return noted("reduce_scatter", size() * block_elements, dtype);
  }
  Request do_all_gather(const void* send, void* recv, Count block_elements, DType dtype) override {
    tell("all_gather", size() * block_elements, dtype, send, recv);
    return noted("all_gather", size() * block_elements, dtype);
  }
  Request do_broadcast(void* data, Count elements, DType dtype, int root) override {
    tell("broadcast", elements, dtype, rank() == root ? data : nullptr, rank() == root ? nullptr : data);
    return noted("broadcast", elements, dtype);
  }
  // The receiver waits for a message; its sender has only to know that it has left.
  Request do_send(const void* data, Count elements, DType dtype, int, int) override {
    tell("send", elements, dtype, data, nullptr);
    return {};
  }
  Request do_recv(void* data, Count elements, DType dtype, int, int) override {
    tell("recv", elements, dtype, nullptr, data);
    return noted("recv", elements, dtype);
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
  Request noted(std::string_view operation, Count elements, DType dtype) const {
    WorkTape* const tape = WorkTape::of_thread();
    if (tape == nullptr || size() == 1) return {};
    return Request(std::make_unique<NotedOperation>(tape->start(operation, name(), members(), elements * size_of(dtype))));
  }

  void tell(const char* operation, Count elements, DType dtype, const void* from, const void* to) const {
    if (CountingListener* const listener = counting_listener())
      listener->communicates({operation, name(), size(), elements * size_of(dtype), from, to});
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
