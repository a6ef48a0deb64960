// ZeRO stage 3 (FSDP, Zhao et al. 2023): the weights that layers read are divided as well.
#pragma once

#include "gpu/device.hpp"
#include "parallel/zero/zero2.hpp"

namespace cohort {

/// The groups of a unit are gathered before its forward, given up after it, and gathered again for its backward; while a unit
/// computes, the next one's are on their way. The last unit's stay from its forward to its backward, which follows at once.
/// Traffic of a micro-batch: two all-gathers of the weights and a reduce-scatter of the gradients.
///
/// If the weights were offloaded (ZeRO-Offload, Ren et al. 2021), a rank's shard lies on the host, and is brought to the device a
/// unit ahead of the gather: while one unit computes, the next is gathered and the one after it comes in from the host, on the
/// copy stream.
class Zero3 : public ShardedGradients {
 public:
  Zero3(Model& model, Communicator& group, const ShardOptions& options);
  std::string_view name() const override { return "zero3"; }

  void pre_forward(const Unit& unit) override;
  void post_forward(const Unit& unit) override;
  void pre_backward(const Unit& unit) override;
  void end_pass() override;

 private:
  // Brings the own shard in from the host, if it lies there.
  void start_fetch(std::size_t group);
  void start_fetches(std::size_t unit);
  void start_gather(std::size_t group);
  void finish_gather(std::size_t group);
  // Waits until the groups of a unit are there.
  void need(std::size_t unit);
  void start_gathers(std::size_t unit);
  // Gives up the groups of a unit, but for those that unit `next` reads.
  void give_up(std::size_t unit, std::size_t next);
  void give_up_group(std::size_t group);
  std::size_t place_of(const Unit& unit) const { return static_cast<std::size_t>(&unit - model_.units().data()); }

  struct Fetch {
    Tensor shard;  // [block] on the device; undefined if there is none
    gpu::Event there;
  };
  std::vector<Request> gathers_;  // by group
  std::vector<Fetch> fetches_;    // by group; none if shards lie on the device
};

}  // namespace cohort
