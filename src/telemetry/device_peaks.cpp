#include "telemetry/device_peaks.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace cohort {
namespace {

using enum GpuGeneration;

// The first that fits counts.
constexpr Datasheet kDatasheets[] = {
    // name, generation, TFLOP/s: 8 bits, 16 bits, tf32, fp32, GiB, GB/s, links GB/s, network Gbit/s
    {"GB200", blackwell, 5000, 2500, 1250, 80, 186, 8000, 900, 400},
    {"B300", blackwell, 4500, 2250, 1100, 75, 268, 8000, 900, 800},
    {"B200", blackwell, 4500, 2250, 1100, 75, 180, 8000, 900, 400},
    {"GH200", hopper, 1978.9, 989.4, 494.7, 66.9, 95, 4000, 450, 400},
    {"H200 NVL", hopper, 1671, 835.5, 417.7, 60, 140, 4800, 450, 400},
    {"H200", hopper, 1978.9, 989.4, 494.7, 66.9, 140, 4800, 450, 400},
    {"H100 NVL", hopper, 1671, 835.5, 417.7, 60, 94, 3900, 300, 400},
    {"H100 PCIe", hopper, 1513, 756.5, 378, 51.2, 80, 2000, 64, 200},
    // The 96 GB variant of Meta's Grand Teton servers, at 500 W of 700. Some 130 W do not depend on the clock, and the rest goes
    // about as its square.
    {"H100 HBM2e 500W", hopper, 1978.9, 989.4, 494.7, 66.9, 95, 2400, 450, 400, 0.80},
    {"H100", hopper, 1978.9, 989.4, 494.7, 66.9, 80, 3350, 450, 400},
    {"H800", hopper, 1978.9, 989.4, 494.7, 66.9, 80, 3350, 200, 400},
    {"H20", hopper, 296, 148, 74, 44, 96, 4000, 450, 400},
    {"A100", ampere, 0, 312, 156, 19.5, 80, 2039, 300, 200},
    {"A800", ampere, 0, 312, 156, 19.5, 80, 2039, 200, 200},
    {"A30", ampere, 0, 165, 82, 10.3, 24, 933, 32, 100},
    {"A40", ampere, 0, 149.7, 74.8, 37.4, 48, 696, 32, 100},
    {"RTX A6000", ampere, 0, 154.8, 77.4, 38.7, 48, 768, 32, 100},
    {"A10G", ampere, 0, 70, 35, 35, 24, 600, 32, 100},
    {"A10", ampere, 0, 125, 62.5, 31.2, 24, 600, 32, 100},
    {"L40S", ampere, 733, 362, 183, 91.6, 48, 864, 32, 200},
    {"L40", ampere, 362, 181, 90.5, 90.5, 48, 864, 32, 200},
    {"L4", ampere, 242, 121, 60, 30.3, 24, 300, 32, 100},
    {"RTX 5090", blackwell, 419, 209.5, 104.8, 104.8, 32, 1792, 64, 100},
    {"RTX 4090", ampere, 330.3, 165.2, 82.6, 82.6, 24, 1008, 32, 100},
    {"RTX 3090", ampere, 0, 71, 35.6, 35.6, 24, 936, 32, 100},
    {"V100", volta, 0, 125, 0, 15.7, 32, 900, 150, 100},
    {"T4", volta, 0, 65, 0, 8.1, 16, 320, 16, 100},
};

bool is_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

// Whether `name` stands in `text` as words of their own: "L4" is not in "L40S".
bool has_words(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return false;
  const std::size_t end = at + name.size();
  return (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
}

// "H100 PCIe", "h100_pcie": "h100-pcie".
std::string plain(std::string_view name) {
  std::string text;
  for (const char letter : name)
    text += is_word(letter) ? static_cast<char>(std::tolower(static_cast<unsigned char>(letter))) : '-';
  return text;
}

template <class Fits>
const Datasheet* first_of_table(const Fits& fits) {
  const auto* const found = std::find_if(std::begin(kDatasheets), std::end(kDatasheets), fits);
  return found == std::end(kDatasheets) ? nullptr : found;
}

}  // namespace

std::optional<double> Datasheet::flops(std::string_view policy) const {
  const bool has_bf16 = tf32 > 0.0;  // both came with Ampere
  if (policy == "bf16" && !has_bf16) return std::nullopt;
  const double teraflops = policy == "fp32" ? fp32 : policy == "tf32" ? tf32 : policy == "fp8" ? eight_bits : sixteen_bits;
  return teraflops > 0.0 ? std::optional(1e12 * teraflops) : std::nullopt;
}

std::string_view utilisation_policy(std::string_view policy) { return policy == "fp8" ? "bf16" : policy; }

const Datasheet* datasheet_of_device(std::string_view device) {
  // A part of a card (MIG), or one of another power and clock under the same name.
  if (has_words(device, "MIG") || has_words(device, "Laptop")) return nullptr;
  return first_of_table([&](const Datasheet& one) { return has_words(device, one.name); });
}

const Datasheet* datasheet_named(std::string_view name) {
  return first_of_table([wanted = plain(name)](const Datasheet& one) { return plain(one.name) == wanted; });
}

std::vector<std::string> datasheet_names() {
  std::vector<std::string> names;
  for (const Datasheet& one : kDatasheets) names.push_back(plain(one.name));
  return names;
}

std::optional<double> datasheet_flops(const std::string& device, const std::string& policy) {
  const Datasheet* const found = datasheet_of_device(device);
  return found == nullptr ? std::nullopt : found->flops(policy);
}

}  // namespace cohort
