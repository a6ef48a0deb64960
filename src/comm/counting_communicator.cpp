#include "comm/counting_communicator.hpp"

#include "base/error.hpp"

namespace cohort {
namespace {

class CountingCommunicator : public Communicator {
 public:
  CountingCommunicator(std::string name, int rank, int size) : Communicator(std::move(name), rank, size) {}
  std::string_view backend() const override { return "counting"; }

 protected:
  Recording recording() const override { return Recording::none; }
  Request do_all_reduce(void*, Count, DType, ReduceOp) override { return {}; }
  Request do_reduce_scatter(const void*, void*, Count, DType, ReduceOp) override { return {}; }
  Request do_all_gather(const void*, void*, Count, DType) override { return {}; }
  Request do_broadcast(void*, Count, DType, int) override { return {}; }
  Request do_send(const void*, Count, DType, int, int) override { return {}; }
  Request do_recv(void*, Count, DType, int, int) override { return {}; }
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
};

}  // namespace

std::unique_ptr<Communicator> make_counting_communicator(std::string name, int rank, int size) {
  return std::make_unique<CountingCommunicator>(std::move(name), rank, size);
}

}  // namespace cohort
