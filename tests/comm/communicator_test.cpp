// The suite of all backends on those of host memory, and the tags that only these have.
#include <gtest/gtest.h>

#include <vector>

#include "communicator_suite.hpp"

namespace cohort::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Host, CommunicatorTest, Backends);

template <class Backend>
class TaggedCommunicatorTest : public CommunicatorTest<Backend> {};
TYPED_TEST_SUITE(TaggedCommunicatorTest, Backends);

TYPED_TEST(TaggedCommunicatorTest, TagsKeepMessagesApart) {
  if (this->comm_->size() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  using Buffer = typename TypeParam::template Buffer<float>;
  const Count count = this->kLarge;
  if (this->comm_->rank() == 0) {
    Buffer first(test_values<float>(0, count));
    Buffer second(test_values<float>(1, count));
    Request one = this->comm_->send_async(first.data(), count, DType::f32, 1, 0);
    Request two = this->comm_->send_async(second.data(), count, DType::f32, 1, kMaxTag);
    one.wait();
    two.wait();
  } else if (this->comm_->rank() == 1) {
    Buffer first(std::vector<float>(static_cast<std::size_t>(count)));
    Buffer second(std::vector<float>(static_cast<std::size_t>(count)));
    Request two = this->comm_->recv_async(second.data(), count, DType::f32, 0, kMaxTag);  // posted in the other order
    Request one = this->comm_->recv_async(first.data(), count, DType::f32, 0, 0);
    two.wait();
    one.wait();
    EXPECT_EQ(first.host(), test_values<float>(0, count));
    EXPECT_EQ(second.host(), test_values<float>(1, count));
  }
}

}  // namespace
}  // namespace cohort::test
