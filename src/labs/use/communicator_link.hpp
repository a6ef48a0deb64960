// A Link of the exercises over a group of real ranks.
#pragma once

#include <cohort/lab.hpp>

#include "comm/communicator.hpp"

namespace cohort::labs {

class CommunicatorLink : public lab::Link {
 public:
  /// `group` must outlive it.
  explicit CommunicatorLink(Communicator& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int ranks() const override { return group_.size(); }
  void send(int to, std::span<const float> data) override { group_.send(data.data(), count(data), DType::f32, to, kMaxTag); }
  void receive(int from, std::span<float> data) override { group_.recv(data.data(), count(data), DType::f32, from, kMaxTag); }
  void exchange(int to, std::span<const float> sent, int from, std::span<float> received) override {
    Request receiving = group_.recv_async(received.data(), count(received), DType::f32, from, kMaxTag);
    Request sending = group_.send_async(sent.data(), count(sent), DType::f32, to, kMaxTag);
    receiving.wait();
    sending.wait();
  }

 private:
  static Count count(std::span<const float> data) { return static_cast<Count>(data.size()); }

  Communicator& group_;
};

}  // namespace cohort::labs
