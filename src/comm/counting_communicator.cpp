#include "comm/counting_communicator.hpp"

#include "base/counting_listener.hpp"
#include "base/error.hpp"

namespace cohort {
namespace {

class CountingCommunicator : public Communicator {
 public:
  CountingCommunicator(std::string name, int rank, int size) : Communicator(std::move(name), rank, size) {}
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
  Request do_send(const void* data, Count elements, DType dtype, int, int) override {
    return told("send", elements, dtype, data, nullptr);
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
    int place = 0, members = 0;
    for (int other = 0; other < size(); ++other) {
      if (color_of(other) != color) continue;
      if (other == rank()) place = members;
      ++members;
    }
    return make_counting_communicator(std::move(name), place, members);
  }

 private:
  Request told(const char* operation, Count elements, DType dtype, const void* from, const void* to) const {
    if (CountingListener* const listener = counting_listener())
      listener->communicates({operation, name(), size(), elements * size_of(dtype), from, to});
    return {};
  }
};

}  // namespace

std::unique_ptr<Communicator> make_counting_communicator(std::string name, int rank, int size) {
  return std::make_unique<CountingCommunicator>(std::move(name), rank, size);
}

}  // namespace cohort
