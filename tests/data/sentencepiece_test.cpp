// What Cohort adds to SentencePiece's library: parts of a text, serialising, losses. The models are trained here. Against the
// library's own Python client: sentencepiece_test.py.
#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <fstream>

#include "data/tokenizer_kind.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

class SentencePiece : public ::testing::Test {
 protected:
  // Of a few sentences, with byte fallback and without normalisation, as language models have it.
  std::unique_ptr<Tokenizer> trained(const std::string& options =
                                         "--normalization_rule_name=identity --byte_fallback=true "
                                         "--remove_extra_whitespaces=false") {
    std::ofstream lines(folder_ / "lines.txt");
    for (int i = 0; i < 200; ++i) lines << "The cat number " << i << " sat on the mat and saw " << i * i << " other cats.\n";
    lines.close();
    const std::string prefix = (folder_ / "m").string();
    const std::string words =
        "--model_type=bpe --vocab_size=400 --hard_vocab_limit=false --minloglevel=2 --input=" + (folder_ / "lines.txt").string() +
        " --model_prefix=" + prefix + " " + options;
    EXPECT_TRUE(::sentencepiece::SentencePieceTrainer::Train(words).ok());
    return open_tokenizer(prefix + ".model");
  }

  const test::TemporaryFolder folder_;
};

TEST_F(SentencePiece, GivesBackWhatIsUtf8) {
  const auto tokenizer = trained();
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer->losses(), "");
  for (const char* text : {"a", " a", "a ", "The cat\r\nsat\n\n\ton   the mat", "\u00e9\u8a9e\U0001F600", "\n"}) {
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    EXPECT_EQ(tokenizer->count(text), static_cast<Count>(ids.size()));
    std::string joined;
    for (const std::int32_t id : ids) joined += tokenizer->text_of(id);
    EXPECT_EQ(joined, std::string(" ") + text) << "token by token with the space before the start";
  }
}

TEST_F(SentencePiece, PartsOfATextAreEncodedAsTheWhole) {
  const auto tokenizer = trained();
  std::string text;
  for (int i = 0; i < 2000; ++i) text += i % 7 == 0 ? "  the cat\r\n" : "sat on mats \u00e9\n";
  std::vector<std::int32_t> whole(tokenizer->most_tokens(text.size())), parts, block(tokenizer->most_tokens(1000));
  std::size_t position = 0;
  whole.resize(static_cast<std::size_t>(tokenizer->encode_some(text, position, whole, "text")));
  ASSERT_EQ(position, text.size());
  int calls = 0;
  for (position = 0; position < text.size(); ++calls) {
    const Count count = tokenizer->encode_some(text, position, block, "text");
    parts.insert(parts.end(), block.begin(), block.begin() + count);
  }
  EXPECT_GT(calls, 10);
  EXPECT_EQ(parts, whole);
  TextSource continued("text");  // as a document's later pieces in preparation
  continued.starts = false;
  position = 0;
  block.resize(static_cast<std::size_t>(tokenizer->encode_some("a cat", position, block, continued)));
  EXPECT_EQ(tokenizer->text_of(block[0]).front(), 'a') << "no space";
}

TEST_F(SentencePiece, IsReadAsItWasSerialised) {
  const auto tokenizer = trained();
  const auto again = read_tokenizer(tokenizer->serialise(), "test");
  EXPECT_EQ(again->serialise(), tokenizer->serialise());
  EXPECT_EQ(again->encode("the cat sat"), tokenizer->encode("the cat sat"));
  for (const char* damaged : {R"({"kind":"sentencepiece"})", R"({"kind":"sentencepiece","model":7})",
                              R"({"kind":"sentencepiece","model":"x"})", R"({"kind":"sentencepiece","model":"Zm9v"})"})
    EXPECT_ERROR(read_tokenizer(damaged, "x.h5"), ExitCode::data, "x.h5", "sentencepiece tokenizer is damaged");
}

TEST_F(SentencePiece, SaysWhatItDoesNotKeepAndRefusesWhatItCannotTake) {
  const auto tokenizer = trained("--normalization_rule_name=nfkc");
  EXPECT_NE(tokenizer->losses().find("runs of spaces"), std::string::npos) << tokenizer->losses();
  EXPECT_NE(tokenizer->losses().find("NFKC"), std::string::npos) << tokenizer->losses();
  EXPECT_ERROR(tokenizer->encode("abc\xff", "x.txt"), ExitCode::data, "x.txt", "byte 3");
  EXPECT_EQ(special_token(*tokenizer, "</s>", "--end-of-document"), 2);
  for (const std::int32_t id : tokenizer->encode("a </s> b")) EXPECT_NE(id, 2) << "text is text";
  EXPECT_ERROR(tokenizer->decode(std::vector<std::int32_t>{100000}), ExitCode::data, "100000");
}

}  // namespace
}  // namespace cohort
