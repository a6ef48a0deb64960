#include "labs/05_precision/precision_numbers.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cohort/lab05_precision.hpp>
#include <limits>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "base/text.hpp"

namespace cohort::labs::lab05_precision {
namespace {

using Round = std::uint16_t(float);

float number(std::uint16_t bits) { return to_float(bf16{bits}); }

float with_bits(std::uint32_t upper, std::uint32_t lower) { return std::bit_cast<float>(upper << 16 | lower); }

std::string shown(float value) { return fmt::format("{:.9g} (bits {:#010x})", value, std::bit_cast<std::uint32_t>(value)); }

std::string shown(std::uint16_t bits) { return fmt::format("{:.9g} (bits {:#06x})", number(bits), bits); }

bool is_nan(std::uint16_t bits) { return (bits & 0x7f80u) == 0x7f80u && (bits & 0x7fu) != 0; }

// Calls `check` with all 65,536 upper halves, from 1 on, and this lower half, of those numbers for which `taken` is true.
void for_upper_halves(std::uint32_t lower, const std::function<bool(float)>& taken, const std::function<void(float)>& check) {
  for (std::uint32_t i = 0; i <= 0xffffu; ++i) {
    const float value = with_bits((0x3f80u + i) & 0xffffu, lower);
    if (taken(value)) check(value);
  }
}

void check_nearest(Round* round, float value) {
  const std::uint16_t found = round(value), expected = to_bf16(value).bits;
  if (found == expected) return;
  const auto cut = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  reject("{} becomes {}, but another bf16 is nearer{}", shown(value), shown(found),
         found == cut ? ": to cut off the lower 16 bits is to round towards zero" : "");
}

void check_tie(Round* round, float value) {
  const std::uint16_t found = round(value);
  if (found == to_bf16(value).bits) return;
  if ((found & 1u) != 0)
    reject("{} lies in the middle between two bf16, and becomes {}, whose last bit is 1: the even one is meant", shown(value),
           shown(found));
  reject("{} becomes {}: not one of the two that are nearest", shown(value), shown(found));
}

void check_nan(Round* round, float value) {
  const std::uint16_t found = round(value);
  if (is_nan(found)) return;
  const bool infinite = (found & 0x7fffu) == 0x7f80u;
  reject("a NaN with the bits {:#010x} becomes {}{}", std::bit_cast<std::uint32_t>(value), shown(found),
         infinite ? ": what makes it a NaN was in the lower half" : ": rounding must not carry into its exponent or its sign");
}

struct NamedFormat {
  const char* name;
  int exponent_bits, mantissa_bits;
};
constexpr std::array kFormats{NamedFormat{"bf16", 8, 7}, NamedFormat{"fp16", 5, 10}, NamedFormat{"fp32", 8, 23},
                              NamedFormat{"fp8 E5M2", 5, 2}};

void check_fact(const char* name, double found, double expected, std::initializer_list<std::pair<double, const char*>> known) {
  if (found == expected) return;  // all are exact in fp64
  for (const auto& [wrong, why] : known) {
    if (found == wrong) reject("{} is {:.9g}: {}", name, found, why);
  }
  reject("{} is {:.9g}, which is {:.6g} times what it should be", name, found, found / expected);
}

void check_facts(const FormatFacts& found, int exponent_bits, int mantissa_bits, double weight) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double unit = std::ldexp(1.0, -mantissa_bits), normal = std::ldexp(1.0, 1 - bias);
  check_fact("largest", found.largest, std::ldexp(2.0 - unit, bias),
             {{std::ldexp(2.0 - unit, bias + 1), "the exponent of all ones is of infinity and NaN"},
              {std::ldexp(1.0, bias + 1), "that is the first power of two that is too large"},
              {std::ldexp(1.0, bias), "the mantissa can be all ones, too"}});
  check_fact("smallest_normal", found.smallest_normal, normal,
             {{normal / 2.0, "the exponent of all zeros is of zero and subnormal numbers"}});
  check_fact("smallest", found.smallest, normal * unit,
             {{normal, "subnormal numbers are smaller"},
              {normal * unit / 2.0, "the exponent of subnormal numbers is that of the smallest normal one"}});
  const double gap = std::ldexp(1.0, std::max(std::ilogb(weight), 1 - bias) - mantissa_bits);
  check_fact("gap", found.gap, gap,
             {{std::ldexp(1.0, std::ilogb(weight) - mantissa_bits), "subnormal numbers are all the same distance apart"},
              {unit, "that is the gap above 1; it grows with the exponent of the weight"},
              {weight * unit, "within a power of two all gaps are the same: that of the power"}});
  check_fact("lost_below", found.lost_below, gap / 2.0, {{gap, "rounding goes to the nearest, not down"}});
}

}  // namespace

void grade_rounding(const Library& library, Grading& grading) {
  auto* round = library.function<Round>("round_to_bf16");
  const auto finite = [](float value) { return std::isfinite(value); };
  grading.begin("numbers that a bf16 holds");
  for_upper_halves(0, finite, [&](float value) { check_nearest(round, value); });
  for (const std::uint32_t lower : {0x0001u, 0x4000u, 0x7fffu, 0x8001u, 0xc000u, 0xffffu}) {
    grading.begin(fmt::format("numbers whose lower half is {:#06x}", lower));
    for_upper_halves(lower, finite, [&](float value) { check_nearest(round, value); });
  }
  grading.begin("numbers in the middle between two bf16");
  for_upper_halves(0x8000u, finite, [&](float value) { check_tie(round, value); });
  grading.begin("infinities");
  for (const float sign : {1.0f, -1.0f}) {
    const float infinity = sign * std::numeric_limits<float>::infinity();
    if (number(round(infinity)) != infinity) reject("{} becomes {}", shown(infinity), shown(round(infinity)));
  }
  grading.begin("NaN");
  for (const std::uint32_t lower : {0x0001u, 0x0000u, 0x8000u, 0xffffu})
    for_upper_halves(
        lower, [](float value) { return std::isnan(value); }, [&](float value) { check_nan(round, value); });
}

void grade_facts(const Library& library, Grading& grading) {
  auto* facts = library.function<FormatFacts(int, int, double)>("format_facts");
  for (const NamedFormat& format : kFormats) {
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const double smallest = std::ldexp(1.0, 1 - bias - format.mantissa_bits);
    for (const double weight : {1.0, 1.5, 2.0, 0.75, 192.0, 0.015625, std::ldexp(1.75, 1 - bias), smallest, 3.0 * smallest}) {
      grading.begin(fmt::format("{} (exponent of {} bits, mantissa of {}), weight {:.6g}", format.name, format.exponent_bits,
                                format.mantissa_bits, weight));
      check_facts(facts(format.exponent_bits, format.mantissa_bits, weight), format.exponent_bits, format.mantissa_bits, weight);
    }
  }
}

void grade_stochastic(const Library& library, Grading& grading) {
  auto* round = library.function<std::uint16_t(float, std::uint16_t)>("round_stochastically");
  for (const std::uint32_t upper : {0x3f80u, 0xbf80u, 0x3f7fu, 0x0000u, 0x0080u, 0x4348u, 0xc2ffu}) {
    for (const std::uint32_t lower : {0xc000u, 0x0000u, 0x0001u, 0x4000u, 0x8000u, 0xffffu}) {
      const float value = with_bits(upper, lower);
      grading.begin(shown(value));
      std::uint32_t away = 0;
      for (std::uint32_t random = 0; random <= 0xffffu; ++random) {
        const std::uint16_t found = round(value, static_cast<std::uint16_t>(random));
        if (found != upper && found != upper + 1)
          reject("with random = {} it becomes {}, which is not one of the two bf16 around it", random, shown(found));
        if (found == upper + 1) ++away;
      }
      if (away == lower) continue;
      const std::uint16_t nearest = to_bf16(value).bits;
      if (away == 0 || away == 0x10000u)
        reject("it becomes {} for every value of random{}", shown(static_cast<std::uint16_t>(away == 0 ? upper : upper + 1)),
               (away == 0 ? upper : upper + 1) == nearest ? ": that is rounding to nearest, without chance" : "");
      reject("it goes away from zero for {} of the 65536 values of random; its distance from the lower bf16 is {} of 65536ths",
             away, lower);
    }
  }
}

namespace {

std::vector<std::uint16_t> some_values(std::size_t count, float first, float step) {
  std::vector<std::uint16_t> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(to_bf16(first + step * static_cast<float>(i % 7)).bits);
  return values;
}

BothSums expected_sums(std::span<const std::uint16_t> values) {
  float in_bf16 = 0.0f, in_fp32 = 0.0f;
  for (const std::uint16_t value : values) {
    in_bf16 = to_float(to_bf16(in_bf16 + number(value)));
    in_fp32 += number(value);
  }
  return {to_bf16(in_bf16).bits, to_bf16(in_fp32).bits};
}

void check_sums(BothSums (*sum)(std::span<const std::uint16_t>), const std::vector<std::uint16_t>& values) {
  const BothSums found = sum(values), expected = expected_sums(values);
  if (found.in_fp32 != expected.in_fp32)
    reject("in_fp32 is {}{}", shown(found.in_fp32),
           found.in_fp32 == expected.in_bf16 ? ": it is rounded in between" : ", which is not the sum rounded once");
  if (found.in_bf16 != expected.in_bf16)
    reject("in_bf16 is {}{}", shown(found.in_bf16),
           found.in_bf16 == expected.in_fp32 ? ": as exact as the other sum, so it was kept in fp32 between additions"
                                             : ", which is not the sum rounded to nearest after each addition");
}

}  // namespace

void grade_sums(const Library& library, Grading& grading) {
  auto* sum = library.function<BothSums(std::span<const std::uint16_t>)>("sum_both_ways");
  grading.begin("no values");
  check_sums(sum, {});
  for (const std::size_t count : {1u, 2u, 256u, 257u, 1000u}) {
    grading.begin(fmt::format("{} of 1", counted(static_cast<Count>(count), "value")));
    check_sums(sum, some_values(count, 1.0f, 0.0f));
  }
  for (const float first : {0.25f, -3.0f, 1e-3f}) {
    grading.begin(fmt::format("300 values from {} on", first));
    check_sums(sum, some_values(300, first, 0.37f * first));
  }
  grading.begin("256, then 1000 values of 1: order counts");
  std::vector<std::uint16_t> values = some_values(1001, 1.0f, 0.0f);
  values.front() = to_bf16(256.0f).bits;
  check_sums(sum, values);
}

}  // namespace cohort::labs::lab05_precision
