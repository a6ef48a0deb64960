// Batches of token windows and of two moons.
#include "data/batch.hpp"
#include "data/tokenizer_kind.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;

// A token file whose training token i is i % 256, and validation token i is 255 - i % 256.
std::shared_ptr<const TokenFile> counting_file(const std::string& path, Count train, Count validation) {
  const auto tokenizer = learn_tokenizer("byte", {}, {});
  TokenFileWriter writer(path, *tokenizer, train, validation, {}, std::nullopt);
  std::vector<std::int32_t> ids;
  for (Count i = 0; i < train; ++i) ids.push_back(static_cast<std::int32_t>(i % 256));
  for (Count i = 0; i < validation; ++i) ids.push_back(static_cast<std::int32_t>(255 - i % 256));
  writer.append(ids);
  writer.finish();
  return std::make_shared<const TokenFile>(path);
}

TEST(TokenDataset, WindowsAndTheirTargets) {
  const TemporaryFolder folder;
  const TokenDataset data(counting_file(folder / "x.h5", 100, 11), 7);
  EXPECT_EQ(data.samples(Split::train), 14);  // 14 * 7 + 1 = 99 tokens
  EXPECT_EQ(data.samples(Split::validation), 1);
  EXPECT_EQ(data.classes(), 256);
  Batch batch;
  data.fill(Split::train, std::vector<Count>{13, 0, 13}, batch);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.tokens_per_sample, 7);
  EXPECT_EQ(batch.sample_ids, (std::vector<Count>{13, 0, 13}));
  for (std::size_t t = 0; t < 7; ++t) {
    const auto position = static_cast<std::int32_t>(t);
    EXPECT_EQ(batch.inputs[t], 91 + position);
    EXPECT_EQ(batch.targets[t], 92 + position);
    EXPECT_EQ(batch.inputs[7 + t], position);
    EXPECT_EQ(batch.targets[7 + t], position + 1);
  }
  EXPECT_EQ(batch.valid_targets(), 21);
  data.fill(Split::validation, std::vector<Count>{0}, batch);
  EXPECT_EQ(batch.inputs, (std::vector<std::int32_t>{255, 254, 253, 252, 251, 250, 249}));
  data.fill(Split::validation, {}, batch);
  EXPECT_EQ(batch.samples, 0);
  EXPECT_EQ(batch.valid_targets(), 0);
  EXPECT_TRUE(batch.inputs.empty());
  EXPECT_ERROR(data.fill(Split::train, std::vector<Count>{14}, batch), ExitCode::internal, "sample 14 of 14");
}

// The same tokens in documents that begin at these training tokens; the validation tokens are one.
std::shared_ptr<const TokenFile> counting_file_of_documents(const std::string& path, Count train, Count validation,
                                                            const std::vector<Count>& starts) {
  const auto tokenizer = learn_tokenizer("byte", {}, {});
  const DocumentCounts documents{static_cast<Count>(starts.size()), 1};
  TokenFileWriter writer(path, *tokenizer, train, validation, {}, std::nullopt, documents);
  for (Count i = 0; i < train + validation; ++i) {
    if (i == train || std::find(starts.begin(), starts.end(), i) != starts.end()) writer.begin_document();
    writer.append(std::vector<std::int32_t>{static_cast<std::int32_t>(i % 256)});
  }
  writer.finish();
  return std::make_shared<const TokenFile>(path);
}

TEST(TokenDataset, SeparateDocuments) {
  const TemporaryFolder folder;
  TokenDataset data(counting_file_of_documents(folder / "x.h5", 30, 11, {0, 3, 4, 12, 14, 21}), 7);
  Batch batch;
  data.fill(Split::train, std::vector<Count>{0}, batch);
  EXPECT_TRUE(batch.first_keys.empty() && batch.positions.empty());
  EXPECT_EQ(batch.valid_targets(), 7);

  data.separate_documents();
  data.fill(Split::train, std::vector<Count>{1, 0, 2}, batch);  // tokens 7 to 13, 0 to 6, 14 to 20
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(batch.inputs, (Ids{7, 8, 9, 10, 11, 12, 13, 0, 1, 2, 3, 4, 5, 6, 14, 15, 16, 17, 18, 19, 20}));
  EXPECT_EQ(batch.first_keys, (Ids{0, 0, 0, 0, 0, 5, 5, 0, 0, 0, 3, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6}));
  // Token 13 is a document's last, and its target would be the next sample's first; so would be that of token 20.
  EXPECT_EQ(batch.targets, (Ids{8, 9, 10, 11, -1, 13, -1, 1, 2, -1, -1, 5, 6, 7, 15, 16, 17, 18, 19, 20, -1}));
  EXPECT_EQ(batch.valid_targets(), 16);
  data.fill(Split::validation, std::vector<Count>{0}, batch);
  EXPECT_EQ(batch.first_keys, Ids(7, 0));
  EXPECT_EQ(batch.valid_targets(), 7);
  data.fill(Split::validation, {}, batch);
  EXPECT_TRUE(batch.first_keys.empty());
}

TEST(TokenDataset, SeparateDocumentsMustBeKnown) {
  const TemporaryFolder folder;
  TokenDataset data(counting_file(folder / "x.h5", 100, 11), 7);
  EXPECT_ERROR(data.separate_documents(), ExitCode::data, "x.h5", "where documents begin", "data.documents = \"joined\"",
               "prepare the text again");
}

TEST(TokenDataset, ShorterThanTheContextIsRefused) {
  const TemporaryFolder folder;
  const auto file = counting_file(folder / "x.h5", 100, 8);
  EXPECT_EQ(TokenDataset(file, 7).samples(Split::validation), 1);
  EXPECT_ERROR(TokenDataset(file, 8), ExitCode::data, "x.h5: /validation", "8 tokens", "at least 9");
  EXPECT_ERROR(TokenDataset(file, 100), ExitCode::data, "x.h5: /train", "100 tokens", "at least 101");
}

TEST(TokenDataset, OfSeveralFilesOneAfterTheOther) {
  const TemporaryFolder folder;
  const auto first = counting_file(folder / "x.h5", 100, 11), second = counting_file(folder / "y.h5", 50, 30);
  const TokenDataset data({{"x", first}, {"y", second}}, 7);
  const TokenDataset alone[] = {{first, 7}, {second, 7}};
  EXPECT_EQ(data.name(), "the mixture of x, y");
  EXPECT_EQ(alone[0].parts(Split::train).front().name, "");
  for (const Split split : {Split::train, Split::validation}) {
    const std::vector<DatasetPart> parts = data.parts(split);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].samples + parts[1].samples, data.samples(split));
    for (std::size_t source : {1u, 0u}) {
      EXPECT_EQ(parts[source].samples, alone[source].samples(split));
      for (Count sample = 0; sample < parts[source].samples; ++sample) {
        Batch mixed, own;
        data.fill(split, std::vector<Count>{parts[source].first + sample}, mixed);
        alone[source].fill(split, std::vector<Count>{sample}, own);
        EXPECT_EQ(mixed.inputs, own.inputs);
        EXPECT_EQ(mixed.targets, own.targets);
        EXPECT_EQ(data.sample_name(split, parts[source].first + sample), fmt::format("{}/{}", parts[source].name, sample));
      }
    }
  }
  EXPECT_EQ(alone[0].sample_name(Split::train, 3), "3");
  EXPECT_ERROR(TokenDataset({{"x", first}, {"y", second}}, 12), ExitCode::data, "x.h5: /validation", "11 tokens");
}

TEST(Batch, CountsTargetsThatCount) {
  Batch batch;
  batch.targets = {0, -1, 5, -1};
  EXPECT_EQ(batch.valid_targets(), 2);
}

TEST(TwoMoons, PureBalancedAndSeparable) {
  const TwoMoonsDataset data(3, 6, 2000);
  EXPECT_EQ(data.samples(Split::train), 2000);
  EXPECT_EQ(data.samples(Split::validation), 500);
  std::vector<Count> ids(2000);
  std::iota(ids.begin(), ids.end(), Count{0});
  Batch batch;
  data.fill(Split::train, ids, batch);
  double ones = 0;
  double off = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    const double x = batch.features[i * 6];
    const double y = batch.features[i * 6 + 1];
    ones += batch.targets[i];
    // Distance from the half circle of its class: noise of 0.1 in the radius.
    const double radius = batch.targets[i] == 0 ? std::hypot(x, y) : std::hypot(x - 1, y - 0.5);
    off += (radius - 1) * (radius - 1);
  }
  EXPECT_NEAR(ones / 2000, 0.5, 0.05);            // 4.5 standard deviations
  EXPECT_NEAR(std::sqrt(off / 2000), 0.1, 0.01);  // the spread of a spread over 2000 samples is 1.6%
  EXPECT_EQ(batch.valid_targets(), 2000);
  EXPECT_EQ(batch.tokens_per_sample, 1);
  EXPECT_EQ(batch.features_per_sample, 6);

  Batch one;
  data.fill(Split::train, std::vector<Count>{1234}, one);
  for (std::size_t f = 0; f < 6; ++f) EXPECT_EQ(one.features[f], batch.features[1234 * 6 + f]);
  EXPECT_EQ(one.targets[0], batch.targets[1234]);
  Batch other;
  data.fill(Split::validation, std::vector<Count>{123}, other);
  data.fill(Split::train, std::vector<Count>{123}, one);
  EXPECT_NE(one.features, other.features);
  EXPECT_ERROR(TwoMoonsDataset(1, 1, 10), ExitCode::config, "model.inputs");
  EXPECT_ERROR(TwoMoonsDataset(1, 2, 0), ExitCode::config, "data.samples");
}

}  // namespace
}  // namespace cohort
