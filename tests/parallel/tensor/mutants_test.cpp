// Planted faults, each one that people have really made; the comparison that accepts the parts must reject every one of them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "parallel/tensor/training.hpp"

namespace cohort::test {
namespace {

enum class Fault {
  none,
  no_sum_after_a_row_layer,
  no_sum_before_a_column_layer,
  no_sum_before_the_head,
  bias_on_every_part,
  padding_in_the_softmax,
  partial_gradients_not_summed,
  partial_gradients_summed_again,  // what earlier micro-batches left is summed once more
  // With overlap: a message that never comes.
  rows_not_passed_on,
  terms_not_passed_on,
  gradient_rows_not_passed_on,
  gradient_terms_not_passed_on
};

// A fault between the layers and the group. What is summed shows in its shape: activations are [rows, C], the softmax's sums
// [2, rows], partial gradients [n].
class Faulty : public TensorParallelGroup {
 public:
  Faulty(Communicator& group, const Form& form, Fault fault, const ModelSection& model)
      : TensorParallelGroup(group, form.sequence, form.overlap), fault_(fault), model_(model) {}

  void know(const ParameterRegistry& parameters) {
    for (const auto& parameter : parameters.all()) {
      if (parameter->name.ends_with("output.bias") || parameter->name.ends_with("down.bias")) biases_.push_back(parameter->value);
    }
  }

 protected:
  void do_sum(const Tensor& x, const Site& site) override {
    if (x.shape().dims() == 1) return sum_partial_gradients(x, site);
    if (x.shape()[0] == 2) {
      if (fault_ == Fault::padding_in_the_softmax) add_padding(x);
      return TensorParallelGroup::do_sum(x, site);
    }
    // Of each micro-batch: 0 the embedding, 1 to 2 L the branches, then the head's backward and 2 L of the branches'.
    const Count branches = 2 * model_.layers;
    const Count number = sums_++ % (2 * branches + 2);
    if (fault_ == Fault::no_sum_after_a_row_layer && number == 2) return;
    if (fault_ == Fault::no_sum_before_the_head && number == branches + 1) return;
    if (fault_ == Fault::no_sum_before_a_column_layer && number == branches + 3) return;
    if (fault_ == Fault::bias_on_every_part && part() > 0 && number >= 1 && number <= branches) {
      const Tensor bias = biases_[static_cast<std::size_t>(number - 1)].to_host();
      change(x, [&](Count i, float& value) { value += bias.f32()[i % bias.elements()]; });
    }
    TensorParallelGroup::do_sum(x, site);
  }
  // Of each micro-batch: four times around the ring for every block forward, and four backward, of which the first gathers
  // gradients and the second adds up theirs.
  void do_pass_on(const Tensor& outgoing, const Tensor& incoming, const Site& site) override {
    const Count number = turns_++ / (parts() - 1) % (8 * model_.layers);
    if ((fault_ == Fault::rows_not_passed_on && number == 4) || (fault_ == Fault::terms_not_passed_on && number == 1) ||
        (fault_ == Fault::gradient_rows_not_passed_on && number == 4 * model_.layers) ||
        (fault_ == Fault::gradient_terms_not_passed_on && number == 4 * model_.layers + 1))
      return incoming.zero();
    TensorParallelGroup::do_pass_on(outgoing, incoming, site);
  }
  void do_max(const Tensor& x, const Site& site) override {
    TensorParallelGroup::do_max(x, site);
    largest_ = x;
  }

 private:
  static void change(const Tensor& x, const std::function<void(Count, float&)>& act) {
    const Tensor host = x.to_host();
    for (Count i = 0; i < host.elements(); ++i) act(i, host.f32()[i]);
    if (!x.on_host()) x.copy_from(host);
  }
  // As if the last part, which has fewer columns, let its padding in: logits of 0.
  void add_padding(const Tensor& sums) {
    if (part() + 1 < parts()) return;
    const Count padding = (model_.vocabulary + parts() - 1) / parts() * parts() - model_.vocabulary;
    const Tensor largest = largest_.to_host();
    change(sums, [&](Count i, float& value) {
      if (i < largest.elements()) value += static_cast<float>(padding) * std::exp(-largest.f32()[i]);
    });
  }
  // One message for each block and the last norm.
  void sum_partial_gradients(const Tensor& message, const Site& site) {
    if (fault_ == Fault::partial_gradients_not_summed) return;
    const std::size_t units = static_cast<std::size_t>(model_.layers) + 1;
    const std::size_t number = messages_++ % (units * kAccumulation);
    if (fault_ == Fault::partial_gradients_summed_again && number >= units && part() > 0) {
      const Tensor& earlier = earlier_.at(number - units);
      change(message, [&](Count i, float& value) { value += earlier.f32()[i]; });
    }
    TensorParallelGroup::do_sum(message, site);
    wait();
    if (number == 0) earlier_.clear();
    earlier_.push_back(Tensor::zeros("test", message.shape()));
    earlier_.back().copy_from(message);
  }

  Fault fault_;
  ModelSection model_;
  std::vector<Tensor> biases_;
  Tensor largest_;
  Count sums_ = 0;
  Count turns_ = 0;
  std::size_t messages_ = 0;
  std::vector<Tensor> earlier_;
};

class Mutants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (ranks_.size() == 1) GTEST_SKIP() << "with one part there is nothing to sum, and nothing to get wrong";
  }
  Distance distance_of(const ModelSection& model, Fault fault, const Form& form = {}) {
    Faulty parallel(ranks_.tensors(), form, fault, model);
    const auto know = [&](const ParameterRegistry& parameters) { parallel.know(parameters); };
    return distance(train(model, parallel, ranks_.mesh(), DType::f32, know), train_alone(model));
  }
  // Not by a hair: the tolerance need not be tuned to tell faults from rounding.
  void expect_rejected(const ModelSection& model, Fault fault, const Form& form = {}) {
    const Distance found = distance_of(model, fault, form);
    EXPECT_FALSE(found.within(10 * kTolerance)) << found.str();
  }

  Ranks ranks_;
};

TEST_F(Mutants, AnHonestWrapperIsAccepted) {
  for (const Form& form : kForms) EXPECT_TRUE(distance_of(gpt2_section(0.2), Fault::none, form).within(kTolerance));
}

TEST_F(Mutants, AMissingSumIsRejected) {
  for (const ModelSection& model : {gpt2_section(0.0), llama_section(12)}) {
    expect_rejected(model, Fault::no_sum_after_a_row_layer);
    expect_rejected(model, Fault::no_sum_before_a_column_layer);
    expect_rejected(model, Fault::no_sum_before_the_head);
  }
}

TEST_F(Mutants, ABiasAddedByEveryPartIsRejected) { expect_rejected(gpt2_section(0.0), Fault::bias_on_every_part); }

TEST_F(Mutants, PaddingInTheSoftmaxIsRejected) {
  expect_rejected(gpt2_section(0.0), Fault::padding_in_the_softmax);
  expect_rejected(gpt2_section(0.0, false), Fault::padding_in_the_softmax, kSequence);
}

TEST_F(Mutants, SharedKeyValueHeadsWithoutTheirSumAreRejected) {
  expect_rejected(llama_section(1), Fault::partial_gradients_not_summed);
}

TEST_F(Mutants, NormsOfOwnRowsWithoutTheirSumAreRejected) {
  expect_rejected(gpt2_section(0.0), Fault::partial_gradients_not_summed, kSequence);
  expect_rejected(llama_section(12), Fault::partial_gradients_not_summed, kSequence);
}

TEST_F(Mutants, GradientsOfEarlierMicroBatchesSummedAgainAreRejected) {
  expect_rejected(gpt2_section(0.0), Fault::partial_gradients_summed_again, kSequence);
}

TEST_F(Mutants, ABlockThatIsNotPassedOnIsRejected) {
  for (const ModelSection& model : {gpt2_section(0.0), llama_section(12)}) {
    for (const Fault fault : {Fault::rows_not_passed_on, Fault::terms_not_passed_on, Fault::gradient_rows_not_passed_on,
                              Fault::gradient_terms_not_passed_on})
      expect_rejected(model, fault, kOverlap);
  }
}

}  // namespace
}  // namespace cohort::test
