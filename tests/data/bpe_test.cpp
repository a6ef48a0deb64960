// Byte-level BPE: what merges make of a text, worked out by hand; vocabularies that are learned; and files that are refused with
// their place. That published vocabularies give the ids of tiktoken and Hugging Face's tokenizers is
// tests/data/published_tokenizers_test.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "base/file.hpp"
#include "data/bpe/bpe_model.hpp"
#include "data/bpe/bpe_trainer.hpp"
#include "data/bpe/byte_letters.hpp"
#include "data/bpe/encoder.hpp"
#include "data/tokenizer_kind.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;

std::vector<std::string> bytes_in_order() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string(1, static_cast<char>(byte)));
  return tokens;
}

// The bytes by their numbers, and then what these pairs make, in this order.
BpeVocabulary vocabulary_of(const std::vector<std::pair<std::string, std::string>>& pairs, bool by_id = false) {
  std::vector<std::string> tokens = bytes_in_order();
  std::vector<BpeVocabulary::Pair> merges;
  const auto id_of = [&](const std::string& token) {
    return static_cast<TokenId>(std::find(tokens.begin(), tokens.end(), token) - tokens.begin());
  };
  for (const auto& [a, b] : pairs) {
    merges.emplace_back(id_of(a), id_of(b));
    tokens.push_back(a + b);
  }
  return {std::move(tokens), by_id ? std::nullopt : std::optional(std::move(merges)), {}, by_id, "test"};
}

std::vector<std::string> encoded(const BpeVocabulary& vocabulary, const std::string& piece) {
  BpeEncoder encoder(vocabulary);
  std::vector<TokenId> ids(piece.size());
  ids.resize(encoder.encode_piece(piece, ids));
  std::vector<std::string> tokens;
  for (const TokenId id : ids) tokens.push_back(vocabulary.tokens()[static_cast<std::size_t>(id)]);
  return tokens;
}

using Tokens = std::vector<std::string>;

TEST(Bpe, TheEarliestMergeComesFirstAndTheLeftmostOfEqualOnes) {
  const BpeVocabulary vocabulary = vocabulary_of({{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"x", "x"}});
  EXPECT_EQ(encoded(vocabulary, "abcab"), (Tokens{"abc", "ab"}));  // "b c" before "a b", though that is further left
  EXPECT_EQ(encoded(vocabulary, "xxx"), (Tokens{"xx", "x"}));
  EXPECT_EQ(encoded(vocabulary, "xxxx"), (Tokens{"xx", "xx"}));
  EXPECT_EQ(encoded(vocabulary, "q"), (Tokens{"q"}));
}

// A listed merge is of its very pair; by id, any two tokens that join to a token merge.
TEST(Bpe, ListedMergesAndMergesByIdCanDiffer) {
  const std::vector<std::pair<std::string, std::string>> pairs{{"b", "c"}, {"x", "a"}, {"a", "bc"}, {"a", "b"}};
  // "ab" + "c" is no pair of the list, but its bytes are a token.
  EXPECT_EQ(encoded(vocabulary_of(pairs), "xabc"), (Tokens{"xa", "bc"}));
  const BpeVocabulary other = vocabulary_of({{"a", "b"}, {"b", "c"}, {"a", "bc"}});
  EXPECT_EQ(encoded(other, "abc"), (Tokens{"ab", "c"}));
  EXPECT_EQ(encoded(vocabulary_of({{"a", "b"}, {"b", "c"}, {"a", "bc"}}, true), "abc"), (Tokens{"abc"}));
}

// The two algorithms of the encoder, for short pieces and for long ones, give the same tokens.
TEST(Bpe, LongPiecesAreMergedAsShortOnes) {
  std::mt19937 random(3);  // the same in every run
  PieceCounts counts;
  for (int i = 0; i < 300; ++i) {
    std::string word;
    for (int k = 0; k < 12; ++k) word += static_cast<char>('a' + random() % 4);
    counts[word] += 1 + static_cast<Count>(random() % 5);
  }
  const BpeVocabulary vocabulary = train_bpe(counts, {.vocabulary = 600, .special = {}});
  EXPECT_GT(vocabulary.size(), 500);
  BpeEncoder encoder(vocabulary);
  for (int i = 0; i < 50; ++i) {
    std::string piece;
    for (int k = 0; k < 400; ++k) piece += static_cast<char>('a' + random() % 4);
    std::vector<TokenId> ids(piece.size());
    ids.resize(encoder.encode_piece(piece, ids));
    EXPECT_EQ(ids, encoder.merge_below(std::numeric_limits<std::int32_t>::max(), piece));
  }
}

// Pieces that differ in one byte at any place, of all sizes about those that the encoder compares in words; each comes again,
// with room for its tokens and no more.
TEST(Bpe, PiecesThatComeAgainAreMergedAsNewOnes) {
  const BpeVocabulary vocabulary =
      vocabulary_of({{"a", "a"}, {"b", "b"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"aaaaaaaa", "aaaaaaaa"}, {"a", "b"}});
  BpeEncoder encoder(vocabulary);
  std::vector<std::string> pieces;
  for (std::size_t size = 1; size <= 40; ++size) {
    pieces.emplace_back(size, 'a');
    for (std::size_t at = 0; at < size; ++at) {
      for (char c = 'b'; c <= 'z'; ++c) {
        pieces.push_back(pieces.back());
        pieces.back()[at] = c;
        std::vector<TokenId> ids(size);
        for (int again = 0; again < 2; ++again) {
          ids.resize(size);
          ids.resize(encoder.encode_piece(pieces.back(), ids));
          ASSERT_EQ(ids, encoder.merge_below(std::numeric_limits<std::int32_t>::max(), pieces.back())) << pieces.back();
        }
      }
      pieces.emplace_back(size, 'a');
    }
  }
  for (std::size_t size = 2; size <= 40; ++size) pieces.emplace_back(size, '\0');  // the words of a place that is free
  for (const std::string& piece : pieces) {
    std::vector<TokenId> ids(piece.size());
    ids.resize(encoder.encode_piece(piece, ids));
    ASSERT_EQ(ids, encoder.merge_below(std::numeric_limits<std::int32_t>::max(), piece)) << piece;
  }
}

// More pieces than the encoder remembers, so that some take another's place, whatever the hash; each comes again at once, when it
// is known. What was known in its place has other tokens, and often another number of them.
TEST(Bpe, PiecesThatTookAnothersPlaceAreMergedAsNewOnes) {
  const BpeVocabulary vocabulary = vocabulary_of({{"A", "B"}, {"C", "C"}, {"CC", "D"}, {"B", "E"}});
  constexpr int kLetters = 51;
  static_assert(std::size_t{kLetters} * kLetters * kLetters > BpeEncoder::kKnown);
  BpeEncoder encoder(vocabulary);
  std::vector<TokenId> ids(3);
  for (int number = 0; number < kLetters * kLetters * kLetters; ++number) {
    std::string piece(3, 'A');
    for (int rest = number, at = 0; at < 3; rest /= kLetters, ++at)
      piece[static_cast<std::size_t>(at)] += static_cast<char>(rest % kLetters);
    for (int again = 0; again < 2; ++again) {
      ids.resize(3);
      ids.resize(encoder.encode_piece(piece, ids));
      ASSERT_EQ(ids, encoder.merge_below(std::numeric_limits<std::int32_t>::max(), piece)) << piece;
    }
  }
}

TEST(Bpe, EveryStringOfBytesComesBack) {
  const std::vector<std::string_view> texts{"the cat and the hat that the cat had"};
  const std::vector<std::string> sources{"a"};
  const auto tokenizer = learn_tokenizer("bpe", texts, sources, {.vocabulary = 270, .pattern = "cl100k", .special = {"<|end|>"}});
  std::mt19937 random(5);  // the same in every run
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int k = 0; k < 300; ++k) text += static_cast<char>(random() % (i % 2 == 0 ? 256 : 128));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  for (const std::string text : {"", "\xE2\x82", "\xFF", "a\xC3", "\xF0\x9F\x90\xA2", "  \r\n \n"})
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(Bpe, SpecialTokensAreTextUnlessAskedFor) {
  const std::vector<std::string_view> texts{"the cat and the hat"};
  const std::vector<std::string> sources{"a"};
  const auto tokenizer =
      learn_tokenizer("bpe", texts, sources, {.vocabulary = 260, .pattern = {}, .special = {"<|end|>", "<|end|>2"}});
  ASSERT_EQ(tokenizer->special_tokens().size(), 2u);
  const std::int32_t end = tokenizer->special_tokens()[0].id, longer = tokenizer->special_tokens()[1].id;
  const std::string text = "the<|end|> cat<|end|>2";
  for (const std::int32_t id : tokenizer->encode(text)) EXPECT_LT(id, end);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  std::vector<std::int32_t> wanted = tokenizer->encode("the");
  wanted.push_back(end);
  for (const std::int32_t id : tokenizer->encode(" cat")) wanted.push_back(id);
  wanted.push_back(longer);  // the longest that is spelled there
  EXPECT_EQ(tokenizer->encode_with_special(text), wanted);
  EXPECT_EQ(tokenizer->decode(wanted), text);
}

// "aab" three times, "ab" once: a b occurs 4 times, a a 3 times; then a + ab 3 times.
TEST(BpeTrainer, TheMostFrequentPairFirst) {
  const BpeVocabulary vocabulary = train_bpe({{"aab", 3}, {"ab", 1}, {"q", 50}}, {.vocabulary = 258, .special = {}});
  ASSERT_EQ(vocabulary.size(), 258);
  EXPECT_EQ(vocabulary.tokens()[256], "ab");
  EXPECT_EQ(vocabulary.tokens()[257], "aab");
  EXPECT_EQ(vocabulary.tokens()[0], "!");  // as in GPT-2
}

TEST(BpeTrainer, EqualCountsAreDecidedByTheSmallerIds) {
  const BpeVocabulary vocabulary = train_bpe({{"cd", 5}, {"ab", 5}}, {.vocabulary = 257, .special = {}});
  EXPECT_EQ(vocabulary.tokens()[256], "ab");
}

TEST(BpeTrainer, PairsThatOccurOnceAreNotMerged) {
  EXPECT_EQ(train_bpe({{"abcdef", 1}}, {.vocabulary = 300, .special = {}}).size(), 256);
}

TEST(BpeTrainer, CountsOfPartsAreThoseOfTheWhole) {
  const SplitPattern pattern("gpt-2");
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("Line {} has  words,\n\n  and it's {}\r\nso.\n", i, i * i);
  PieceCounts whole, parts, travelled;
  count_pieces(pattern, text, whole);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = cut_between_pieces(text, std::min(begin + 97, text.size()));
    count_pieces(pattern, std::string_view(text).substr(begin, end - begin), parts);
    begin = end;
  }
  EXPECT_EQ(parts, whole);
  add_packed_counts(pack_counts(whole), travelled);
  EXPECT_EQ(travelled, whole);
}

TEST(SplitPattern, PiecesAreTheText) {
  const std::string text = "Don't stop:  it's 12345\n\n  \xFF\xFE x\xC2\xA0y  ";
  const auto pieces = [&](const char* name) {
    const SplitPattern pattern(name);
    std::vector<std::string> found;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = pattern.end_of_piece(text, begin);
      found.push_back(text.substr(begin, end - begin));
      begin = end;
    }
    return found;
  };
  const Tokens gpt2 = pieces("gpt-2");
  EXPECT_EQ((Tokens{gpt2.begin(), gpt2.begin() + 8}), (Tokens{"Don", "'t", " stop", ":", " ", " it", "'s", " 12345"}));
  const Tokens cl100k = pieces("cl100k");
  EXPECT_EQ((Tokens{cl100k.begin(), cl100k.begin() + 9}), (Tokens{"Don", "'t", " stop", ":", " ", " it", "'s", " ", "123"}));
  for (const Tokens& all : {gpt2, cl100k}) {
    std::string joined;
    for (const std::string& piece : all) joined += piece;
    EXPECT_EQ(joined, text);
  }
}

// A piece may be longer than what the expression sees at first; and there is a longest.
TEST(SplitPattern, LongPieces) {
  const SplitPattern pattern("gpt-2");
  for (const std::size_t size : {255u, 256u, 257u, 5000u, 300000u}) {
    EXPECT_EQ(pattern.end_of_piece(std::string(size, 'x') + " y", 0), size);
    EXPECT_EQ(pattern.end_of_piece(std::string(size, ' ') + "y", 0), size - 1);  // the last space belongs to the word
  }
  std::string turtles;
  for (int i = 0; i < 1000; ++i) turtles += "\xC3\xA9";
  EXPECT_EQ(pattern.end_of_piece(turtles, 0), turtles.size());
  EXPECT_EQ(pattern.end_of_piece(std::string(SplitPattern::kLongest + 10, 'x'), 0), SplitPattern::kLongest);
}

TEST(SplitPattern, WhatIsNoExpressionIsRefused) {
  EXPECT_ERROR(SplitPattern("a(b"), ExitCode::data, "split pattern 'a(b'", "at 3");
  EXPECT_ERROR(SplitPattern("[^\\S]"), ExitCode::data, "\\S within brackets");
}

TEST(ByteLetters, EveryByteHasOne) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(from_byte_letters(to_byte_letters(bytes)), bytes);
  EXPECT_EQ(to_byte_letters(" a\n"),
            "\xC4\xA0"
            "a\xC4\x8A");
  EXPECT_EQ(from_byte_letters("a b"), std::nullopt);  // the space has a letter of its own
}

class BpeFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  TemporaryFolder folder_;
};

TEST_F(BpeFiles, EachFormatGivesTheModelBack) {
  const BpeModel model{SplitPattern("gpt-2"),
                       train_bpe({{" the", 9}, {" that", 5}, {"cat", 4}}, {.vocabulary = 262, .special = {"<|end|>"}})};
  const BpeModel json = read_tokenizer_json(write("t.json", to_tokenizer_json(model)));
  EXPECT_EQ(json.vocabulary.tokens(), model.vocabulary.tokens());
  EXPECT_EQ(json.vocabulary.merges(), model.vocabulary.merges());
  EXPECT_EQ(json.vocabulary.special(), model.vocabulary.special());
  EXPECT_EQ(json.pattern.expression(), model.pattern.expression());
  const BpeModel pair =
      read_vocab_and_merges(write("vocab.json", to_vocab_json(model)), write("merges.txt", to_merges_txt(model)), "gpt-2");
  EXPECT_EQ(pair.vocabulary.tokens(), model.vocabulary.tokens());
  EXPECT_EQ(pair.vocabulary.merges(), model.vocabulary.merges());
  EXPECT_EQ(pair.vocabulary.special(), model.vocabulary.special());
  const BpeModel ranks = read_tiktoken(write("t.tiktoken", to_tiktoken(model)), "gpt-2", model.vocabulary.special());
  EXPECT_EQ(ranks.vocabulary.tokens(), model.vocabulary.tokens());
  EXPECT_EQ(ranks.vocabulary.special(), model.vocabulary.special());
  EXPECT_EQ(listed_merges(ranks.vocabulary, "ranks"), *model.vocabulary.merges());
}

TEST_F(BpeFiles, RankFilesAreCheckedLineByLine) {
  const auto refuse = [&](const std::string& text, const char* place, const char* why) {
    EXPECT_ERROR(read_tiktoken(write("t.tiktoken", text), "gpt-2", {}), ExitCode::data, place, why);
  };
  refuse("IQ== 0\nIg== 2\n", "t.tiktoken:2:", "the id 2 where 1 is next");
  refuse("IQ== 0\nIg== 0\n", "t.tiktoken:2:", "the id 0 where 1 is next");
  refuse("IQ== 0\n!! 1\n", "t.tiktoken:2:", "base64");
  refuse("IQ== zero\n", "t.tiktoken:1:", "its id");
  refuse("IQ== 0\nIQ== 1\n", "t.tiktoken:", "both of the token '!'");
  refuse("IQ== 0\n", "t.tiktoken:", "is no token: not every text could be encoded");
  EXPECT_ERROR(read_published_tiktoken(write("own.tiktoken", "IQ== 0\n")), ExitCode::usage, "--pattern cl100k");
}

TEST_F(BpeFiles, VocabulariesAndMergesAreChecked) {
  const BpeModel model{SplitPattern("gpt-2"), train_bpe({{"cat", 4}}, {.vocabulary = 258, .special = {}})};
  const std::string vocab = write("vocab.json", to_vocab_json(model));
  const auto refuse_merges = [&](const std::string& text, const char* place, const char* why) {
    EXPECT_ERROR(read_vocab_and_merges(vocab, write("merges.txt", text), "gpt-2"), ExitCode::data, place, why);
  };
  refuse_merges("#version: 0.2\na t\nc at x\n", "merges.txt:3:", "not a pair of tokens");
  refuse_merges("a t\nq at\n", "vocab.json: merge 2", "'qat'");
  refuse_merges("#version: 0.2\nc zz\n", "merges.txt:2:", "'zz' is no token");
  refuse_merges("a t\na t\n", "merge 2", "occurs twice");
  const auto refuse_vocab = [&](const std::string& text, const char* why) {
    EXPECT_ERROR(read_vocab_and_merges(write("bad.json", text), write("merges.txt", ""), "gpt-2"), ExitCode::data, "bad.json",
                 why);
  };
  refuse_vocab("{\"a\": 0, \"b\": 2}", "without holes");
  refuse_vocab("{\"a\": 0, \"b\": 0}", "the id 0 is of");
  refuse_vocab("{\"a\": 0, \"a\": 1}", "a");  // two values of one name
  refuse_vocab("{\"a\": 0, \"b\": 1", "JSON");
  refuse_vocab("{\"a b\": 0}", "letters that byte-level vocabularies use");
  refuse_vocab("[]", "not an object");
}

TEST_F(BpeFiles, WhatWouldGiveOtherIdsIsRefusedByName) {
  const BpeModel model{SplitPattern("gpt-2"), train_bpe({{"cat", 4}}, {.vocabulary = 258, .special = {}})};
  const std::string good = to_tokenizer_json(model);
  const auto refuse = [&](const std::string& old, const std::string& now, const char* place) {
    std::string text = good;
    ASSERT_NE(text.find(old), std::string::npos) << old;
    text.replace(text.find(old), old.size(), now);
    EXPECT_ERROR(read_tokenizer_json(write("t.json", text)), ExitCode::data, "t.json: ", place);
  };
  refuse("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", "normalizer");
  refuse("\"byte_fallback\":false", "\"byte_fallback\":true", "model.byte_fallback");
  refuse("\"unk_token\":null", "\"unk_token\":\"<unk>\"", "model.unk_token");
  refuse("\"type\":\"BPE\"", "\"type\":\"WordPiece\"", "model.type");
  refuse("\"Isolated\"", "\"Removed\"", "pre_tokenizer.pretokenizers[0]");
  refuse("[\"a t\"", "[\"a zz\"", "model.merges[0]");
  const std::string added = "\"added_tokens\":[]";
  refuse(added, "\"added_tokens\":{\"<s>\":300}", "added_tokens is not a list");
  refuse(added, "\"added_tokens\":[{\"content\":\"<s>\",\"id\":-1}]", "added_tokens[0]");
  refuse(added, "\"added_tokens\":[{\"content\":\"<s>\",\"id\":4294967301}]", "not below 10000000");  // not taken for 5
  refuse(added, "\"added_tokens\":[{\"content\":\"<s>\",\"id\":300},{\"content\":\"<s>\",\"id\":301}]", "'<s>' is there twice");
}

}  // namespace
}  // namespace cohort
