// Bad inputs out of good ones, the same in every run: bits flipped, bytes set, stretches cut out, doubled, put in and swapped
// with another input's, and the end cut off.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace cohort::fuzz {

class Mutations {
 public:
  Mutations(std::uint64_t seed, std::vector<std::string> seeds) : random_(seed, RandomPurpose::test), seeds_(std::move(seeds)) {}

  /// Input number `number`: one of the seeds, changed in one to four places. Its first byte, the target's own, stays.
  std::string input(std::uint64_t number) {
    at_ = number << 16;
    std::string input = seeds_[below(seeds_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(input);
    return input;
  }

 private:
  /// The next random number of this input.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>(random_.u64(at_++) % bound); }
  std::size_t place(const std::string& input) { return input.size() < 2 ? input.size() : 1 + below(input.size() - 1); }

  void change(std::string& input) {
    constexpr char kTelling[] = {'\0', '\1', '\x7f', '\x80', '\xff', '0', '9', '-', '"', '[', '{', '/'};
    const std::size_t at = place(input);
    const std::size_t length = std::min(1 + below(16), input.size() - at);
    switch (below(9)) {
      case 0:
      case 1:
      case 2:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 3:
        if (at < input.size()) input[at] = kTelling[below(std::size(kTelling))];
        break;
      case 4:
        std::fill_n(input.begin() + static_cast<std::ptrdiff_t>(at), length, below(2) == 0 ? '\0' : '\xff');
        break;
      case 5:
        input.erase(at, length);
        break;
      case 6:
        input.insert(at, input.substr(place(input), length));
        break;
      case 7: {
        const std::string& other = seeds_[below(seeds_.size())];
        input.replace(at, length, other, std::min(place(other), other.size()), length);
        break;
      }
      default:
        if (below(4) == 0) input.resize(at);  // seldom: little is left
    }
  }

  CounterRandom random_;
  std::vector<std::string> seeds_;
  std::uint64_t at_ = 0;
};

}  // namespace cohort::fuzz
