// 11.4 to 11.6: splits, rows and bits, by the relations that they must keep.
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <limits>
#include <map>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "labs/11_own_text/grade_text.hpp"

namespace cohort::labs::lab11_own_text {
namespace {

// ---- split

using Split = void(std::span<const std::string_view>, double, std::uint64_t, std::span<bool>);
using Sides = std::vector<bool>;

Sides split(Split* function, const std::vector<std::string>& documents, double share, std::uint64_t seed) {
  const std::vector<std::string_view> views(documents.begin(), documents.end());
  const auto sides = std::make_unique<bool[]>(documents.size() + 1);
  sides[documents.size()] = true;
  function(views, share, seed, {sides.get(), documents.size()});
  if (!sides[documents.size()]) reject("something was written behind the last side");
  return Sides(sides.get(), sides.get() + documents.size());
}

const char* side(bool held_out) { return held_out ? "held out" : "trained on"; }

// `count` different ones, and each tenth a second time, in some other place.
std::vector<std::string> documents_of(std::size_t count) {
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < count; ++i) {
    documents.push_back(fmt::format("Document {} is about {} and {}.", i, i % 7, i % 11));
    if (i % 10 == 9) documents.push_back(documents[documents.size() / 2]);
  }
  return documents;
}

void check_duplicates(Split* function, const std::vector<std::string>& documents, double share) {
  const Sides sides = split(function, documents, share, 1);
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto [known, is_new] = first.emplace(documents[i], i);
    if (sides[known->second] != sides[i])
      reject(
          "documents {} and {} have the same text, but one is {} and the other one is {}: validation would measure what was "
          "learned by heart",
          known->second, i, side(sides[known->second]), side(sides[i]));
  }
}

void check_others(Split* function, const std::vector<std::string>& documents) {
  const Sides sides = split(function, documents, 0.3, 1);
  const std::size_t n = documents.size();
  const Sides reversed = split(function, {documents.rbegin(), documents.rend()}, 0.3, 1);
  for (std::size_t i = 0; i < n; ++i) {
    if (reversed[n - 1 - i] != sides[i])
      reject("document {} is {}, but {} if the documents come in the opposite order: its side must depend on its text alone", i,
             side(sides[i]), side(reversed[n - 1 - i]));
  }
  const Sides half = split(function, {documents.begin(), documents.begin() + static_cast<std::ptrdiff_t>(n / 2)}, 0.3, 1);
  for (std::size_t i = 0; i < n / 2; ++i) {
    if (half[i] != sides[i])
      reject("document {} is {}, but {} if the second half of the documents is not there: text that is added later would move it",
             i, side(sides[i]), side(half[i]));
  }
  if (split(function, documents, 0.3, 1) != sides) reject("a second call with the same documents gives other sides");
}

void check_share(Split* function, const std::vector<std::string>& documents, double share) {
  const Sides sides = split(function, documents, share, 7);
  std::map<std::string, bool> different;
  for (std::size_t i = 0; i < documents.size(); ++i) different[documents[i]] = sides[i];
  double held_out = 0.0;
  for (const auto& [text, out] : different) held_out += out ? 1.0 : 0.0;
  const auto n = static_cast<double>(different.size());
  const double allowed = 5.0 * std::sqrt(n * share * (1.0 - share));  // five standard deviations of n throws of a coin
  if (std::fabs(held_out - share * n) <= allowed) return;
  reject("of {:.0f} documents {:.0f} are held out; a share of {} is {:.0f}, give or take {:.0f}{}", n, held_out, share, share * n,
         allowed, std::fabs(held_out - (1.0 - share) * n) <= allowed ? ": that is the share to train on" : "");
}

void check_nested(Split* function, const std::vector<std::string>& documents) {
  const Sides few = split(function, documents, 0.02, 3), many = split(function, documents, 0.2, 3);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (few[i] && !many[i]) reject("document {} is held out with a share of 0.02, and trained on with 0.2", i);
  }
  if (split(function, documents, 0.2, 4) == many) reject("seeds 3 and 4 hold out the same documents: the seed has no effect");
}

// ---- packing

using Pack = void(std::span<const std::vector<int>>, std::size_t, PackedRows&);

struct Place {
  std::size_t row, column;
};
Place place(std::size_t i, std::size_t context) { return {i / context, i % context}; }

void check_tokens(const PackedRows& rows, const std::vector<int>& all, std::size_t context) {
  const std::size_t expected = (all.size() + context - 1) / context * context;
  if (rows.targets.size() != rows.tokens.size() || rows.positions.size() != rows.tokens.size())
    reject("there are {} tokens, {} targets and {} positions: each token has one of both", rows.tokens.size(),
           rows.targets.size(), rows.positions.size());
  if (rows.tokens.size() != expected) {
    const bool dropped = rows.tokens.size() == all.size() / context * context;
    reject("there are {}, but {} in rows of {} fill {}{}", counted(static_cast<Count>(rows.tokens.size()), "token"),
           counted(static_cast<Count>(all.size()), "token"), context, counted(static_cast<Count>(expected / context), "row"),
           dropped                         ? ": what fills no row is lost"
           : rows.tokens.size() > expected ? ": rows are filled up although documents follow"
                                           : "");
  }
  for (std::size_t i = 0; i < rows.tokens.size(); ++i) {
    const int right = i < all.size() ? all[i] : 0;
    const auto [row, column] = place(i, context);
    if (rows.tokens[i] != right)
      reject("row {}, column {} has token {}, not {}: the documents come one behind the other, without anything between them",
             row, column, rows.tokens[i], right);
  }
}

void check_marks(const PackedRows& rows, const std::vector<int>& targets, const std::vector<int>& starts, std::size_t context) {
  for (std::size_t i = 0; i < rows.tokens.size(); ++i) {
    const auto [row, column] = place(i, context);
    const bool padding = i >= targets.size();
    const int target = padding ? -1 : targets[i];
    if (rows.targets[i] != target) {
      const char* why = "";
      if (padding) why = ": nothing is to be learned from what fills the row up";
      if (!padding && target == -1) why = ": the token ends its document, and what follows is no continuation of it";
      if (target != -1 && rows.targets[i] == -1 && column + 1 == context)
        why = ": its document goes on in the next row, and each token but the first of a document is a target once";
      reject("row {}, column {} has target {}, not {}{}", row, column, rows.targets[i], target, why);
    }
    const int position = padding ? 0 : std::min(starts[i], static_cast<int>(column));
    if (rows.positions[i] != position)
      reject("row {}, column {} has position {}, not {}{}", row, column, rows.positions[i], position,
             padding                                         ? ": what fills the row up has position 0"
             : rows.positions[i] == static_cast<int>(column) ? ": positions begin again at each document"
             : rows.positions[i] == starts[i] ? ": positions begin again at each row: what came before is not in it"
                                              : "");
  }
}

void check_packing(Pack* pack, const std::vector<std::size_t>& lengths, std::size_t context) {
  std::vector<std::vector<int>> documents;
  std::vector<int> all, targets, starts;
  int next = 100;
  for (const std::size_t length : lengths) {
    std::vector<int> document;
    for (std::size_t i = 0; i < length; ++i) {
      document.push_back(next);
      all.push_back(next++);
      starts.push_back(static_cast<int>(i));
      targets.push_back(i + 1 < length ? next : -1);
    }
    documents.push_back(std::move(document));
  }
  PackedRows rows{{7}, {7}, {7}};  // of an earlier call
  pack(documents, context, rows);
  check_tokens(rows, all, context);
  check_marks(rows, targets, starts, context);
}

// ---- bits

struct Wrong {
  double value;
  const char* words;
};

void check_bits(double (*bits)(std::span<const MeasuredBatch>), const std::vector<MeasuredBatch>& batches) {
  double nats = 0.0, tokens = 0.0, bytes = 0.0, means = 0.0, of_batches = 0.0;
  for (const MeasuredBatch& b : batches) {
    const auto count = static_cast<double>(b.tokens), size = static_cast<double>(b.bytes);
    nats += b.nats_per_token * count;
    tokens += count;
    bytes += size;
    means += b.nats_per_token / static_cast<double>(batches.size());
    if (size > 0.0) of_batches += b.nats_per_token * count / std::numbers::ln2 / size / static_cast<double>(batches.size());
  }
  const double found = bits(batches), right = nats / std::numbers::ln2 / bytes;
  const auto is = [](double a, double b) { return std::fabs(a - b) <= 1e-9 * std::fabs(b); };
  if (is(found, right)) return;
  for (const Wrong& wrong : {Wrong{nats / bytes, "those are nats per byte: ln 2 nats are a bit"},
                             Wrong{nats * std::numbers::ln2 / bytes, "a nat is more than a bit, 1 / ln 2 of them"},
                             Wrong{nats / std::numbers::ln2 / tokens, "those are bits per token"},
                             Wrong{right * bytes / tokens * bytes / tokens, "tokens and bytes are the wrong way round"},
                             Wrong{of_batches, "that is the mean of the batches' values, but batches differ in size"},
                             Wrong{means * tokens / std::numbers::ln2 / bytes,
                                   "that is the mean of the batches' losses, but batches differ in size"}}) {
    if (is(found, wrong.value)) reject("it is {:.6g}, not {:.6g}: {}", found, right, wrong.words);
  }
  reject("it is {:.6g}, not {:.6g}", found, right);
}

}  // namespace

void grade_split(const Library& library, Grading& grading) {
  auto* function = library.function<Split>("split_documents");
  const std::vector<std::string> documents = documents_of(2000), many = documents_of(20'000);
  const auto begin = [&](const std::vector<std::string>& of, const std::string& words) {
    grading.begin(fmt::format("{} documents, a tenth of them twice, {}", of.size(), words));
  };
  for (const double share : {0.3, 0.5, 0.01}) {
    begin(documents, fmt::format("share {}", share));
    check_duplicates(function, documents, share);
  }
  begin(documents, "share 0.3");
  check_others(function, documents);
  for (const double share : {0.1, 0.005, 0.5, 0.0, 1.0}) {
    begin(many, fmt::format("share {}", share));
    check_share(function, many, share);
  }
  begin(many, "shares 0.02 and 0.2");
  check_nested(function, many);
  grading.begin("no documents");
  split(function, {}, 0.5, 1);
  grading.begin("an empty document, twice");
  check_duplicates(function, {"", "a", ""}, 0.5);
}

void grade_packing(const Library& library, Grading& grading) {
  auto* pack = library.function<Pack>("pack_documents");
  for (const auto& [lengths, context] :
       std::initializer_list<std::pair<std::vector<std::size_t>, std::size_t>>{{{3, 5}, 4},
                                                                               {{4, 4}, 4},
                                                                               {{10}, 4},
                                                                               {{1, 1, 1}, 4},
                                                                               {{2, 0, 3, 0}, 4},
                                                                               {{}, 4},
                                                                               {{0, 0}, 4},
                                                                               {{5, 9, 1, 30, 2}, 8},
                                                                               {{3, 2}, 1},
                                                                               {{7}, 100},
                                                                               {{17, 15, 33, 64, 1}, 16}}) {
    std::vector<std::string> words;
    for (const std::size_t length : lengths) words.push_back(std::to_string(length));
    grading.begin(fmt::format("documents of {} tokens, context {}", words.empty() ? "no" : join(words), context));
    check_packing(pack, lengths, context);
  }
}

void grade_bits(const Library& library, Grading& grading) {
  auto* bits = library.function<double(std::span<const MeasuredBatch>)>("bits_per_byte");
  for (const std::vector<MeasuredBatch>& batches : {std::vector<MeasuredBatch>{{2.0, 1000, 4000}},
                                                    {{std::numbers::ln2, 512, 512}},
                                                    {{3.1, 1024, 4100}, {2.9, 1024, 3900}},
                                                    {{3.0, 4096, 16000}, {9.0, 16, 50}},
                                                    {{1.5, 10, 0}, {2.5, 90, 400}}}) {
    std::vector<std::string> words;
    for (const MeasuredBatch& b : batches)
      words.push_back(fmt::format("{:.4g} nats x {} tokens, {} bytes", b.nats_per_token, b.tokens, b.bytes));
    grading.begin(join(words, "; "));
    check_bits(bits, batches);
  }
}

}  // namespace cohort::labs::lab11_own_text
