#include "telemetry/device_peaks.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace cohort {
namespace {

// TFLOP/s without sparsity; with boost clocks, and sums in fp32. 0: the device has no such units.
struct Peak {
  std::string_view name;  // in the driver's name
  double sixteen_bits, tf32, fp32;
};

// The first that fits counts.
constexpr Peak kPeaks[] = {
    {"GB200", 2500, 1250, 80},
    {"B300", 2250, 1100, 75},
    {"B200", 2250, 1100, 75},
    {"GH200", 989.4, 494.7, 66.9},
    {"H200 NVL", 835.5, 417.7, 60},
    {"H200", 989.4, 494.7, 66.9},
    {"H100 NVL", 835.5, 417.7, 60},
    {"H100 PCIe", 756.5, 378, 51.2},
    {"H100", 989.4, 494.7, 66.9},
    {"H800", 989.4, 494.7, 66.9},
    {"H20", 148, 74, 44},
    {"A100", 312, 156, 19.5},
    {"A800", 312, 156, 19.5},
    {"A30", 165, 82, 10.3},
    {"A40", 149.7, 74.8, 37.4},
    {"RTX A6000", 154.8, 77.4, 38.7},
    {"A10G", 70, 35, 35},
    {"A10", 125, 62.5, 31.2},
    {"L40S", 362, 183, 91.6},
    {"L40", 181, 90.5, 90.5},
    {"L4", 121, 60, 30.3},
    {"RTX 5090", 209.5, 104.8, 104.8},
    {"RTX 4090", 165.2, 82.6, 82.6},
    {"RTX 3090", 71, 35.6, 35.6},
    {"V100", 125, 0, 15.7},
    {"T4", 65, 0, 8.1},
};

bool is_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

// Whether `name` stands in `text` as words of their own: "L4" is not in "L40S".
bool has_words(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return false;
  const std::size_t end = at + name.size();
  return (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
}

}  // namespace

std::optional<double> datasheet_flops(const std::string& device, const std::string& policy) {
  // A part of a card (MIG), or one of another power and clock under the same name.
  if (has_words(device, "MIG") || has_words(device, "Laptop")) return std::nullopt;
  const auto* const peak =
      std::find_if(std::begin(kPeaks), std::end(kPeaks), [&](const Peak& one) { return has_words(device, one.name); });
  if (peak == std::end(kPeaks)) return std::nullopt;
  const bool has_bf16 = peak->tf32 > 0.0;  // both came with Ampere
  if (policy == "bf16" && !has_bf16) return std::nullopt;
  const double teraflops = policy == "fp32" ? peak->fp32 : policy == "tf32" ? peak->tf32 : peak->sixteen_bits;
  return teraflops > 0.0 ? std::optional(1e12 * teraflops) : std::nullopt;
}

}  // namespace cohort
