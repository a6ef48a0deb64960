#include "ops/cuda/gemm/cublaslt_tuning.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "gpu/device.hpp"

namespace cohort::ops::cuda {
namespace {

using nlohmann::ordered_json;

constexpr int kCandidates = 8;      // asked for at each of the two sizes of workspace
constexpr std::size_t kRounds = 9;  // each candidate runs once a round, so that a change of clock meets all alike
constexpr double kClearly = 0.99;   // a gain within noise is no reason to leave the heuristic's choice
// Training runs at the card's power limit, where what takes more energy lowers the clock for all. In turns with others a product
// does not show that, alone and long enough it does: those that are nearly the fastest in turns run alone.
constexpr double kNearly = 1.08;
constexpr std::size_t kFinalists = 4;
constexpr double kLargeMicroseconds = 50.0;                              // what takes less does not bring a card to its limit
constexpr double kSettleMicroseconds = 40e3, kAloneMicroseconds = 80e3;  // the limit acts within milliseconds

bool same(const cublasLtMatmulAlgo_t& x, const cublasLtMatmulAlgo_t& y) { return std::memcmp(&x, &y, sizeof x) == 0; }

std::vector<cublasLtMatmulAlgo_t> candidates(Plan& plan) {
  std::vector<cublasLtMatmulAlgo_t> all = plan.algorithms(kCandidates, kHeuristicWorkspace);
  for (const cublasLtMatmulAlgo_t& more : plan.algorithms(kCandidates, kTuningWorkspace)) {
    if (std::none_of(all.begin(), all.end(), [&](const auto& known) { return same(known, more); })) all.push_back(more);
  }
  return all;
}

using DeviceBlock = std::unique_ptr<void, decltype(&gpu::release)>;

// A copy of c, for products that add to it; null if it does not fit.
DeviceBlock copy_of_c(const ProductKey& key, const Operands& operands) {
  const Bytes bytes = ((key.m - 1) * key.c_stride + key.n) * size_of(key.output);
  DeviceBlock block(nullptr, &gpu::release);
  try {
    block.reset(gpu::allocate(bytes, "tuning of matrix products"));
  } catch (const Error& error) {
    if (error.code() != ExitCode::memory) throw;
    return block;
  }
  gpu::copy_async(block.get(), operands.c, bytes, gpu::compute_stream());
  return block;
}

// Microseconds of each candidate in turns, median over the rounds; infinite for those that cuBLASLt refuses to run.
std::vector<double> time_in_turns(Plan& plan, const Operands& operands, const std::vector<cublasLtMatmulAlgo_t>& all) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> medians;
  for (const cublasLtMatmulAlgo_t& algorithm : all) {  // also the warm-up
    medians.push_back(plan.launch(operands, algorithm) == CUBLAS_STATUS_SUCCESS ? 0.0 : kNever);
  }
  std::vector<gpu::Event> events;
  for (std::size_t i = 0; i < 2 * kRounds * all.size(); ++i) events.emplace_back(gpu::Event::Kind::timing);
  const auto event = [&](std::size_t round, std::size_t candidate) { return &events[2 * (round * all.size() + candidate)]; };
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      event(round, i)[0].record(gpu::compute_stream());
      if (medians[i] < kNever) plan.launch(operands, all[i]);
      event(round, i)[1].record(gpu::compute_stream());
    }
  }
  gpu::synchronize();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (medians[i] == kNever) continue;
    std::array<double, kRounds> times;
    for (std::size_t round = 0; round < kRounds; ++round) {
      times[round] = 1e3 * gpu::milliseconds_between(event(round, i)[0], event(round, i)[1]);
    }
    std::sort(times.begin(), times.end());
    medians[i] = times[kRounds / 2];
  }
  return medians;
}

// Microseconds of a candidate alone, of which one run takes about so many.
double time_alone(Plan& plan, const Operands& operands, const cublasLtMatmulAlgo_t& algorithm, double about) {
  gpu::Event begin(gpu::Event::Kind::timing), end(gpu::Event::Kind::timing);
  const auto launch = [&](double microseconds) {
    const int runs = std::max(1, static_cast<int>(microseconds / std::max(about, 1.0)));
    for (int i = 0; i < runs; ++i) plan.launch(operands, algorithm);
    return runs;
  };
  launch(kSettleMicroseconds);
  begin.record(gpu::compute_stream());
  const int runs = launch(kAloneMicroseconds);
  end.record(gpu::compute_stream());
  gpu::synchronize();
  return 1e3 * gpu::milliseconds_between(begin, end) / runs;
}

// The places of those that are to run alone: the heuristic's choice, and the fastest in turns.
std::vector<std::size_t> finalists_of(const std::vector<double>& times) {
  std::vector<std::size_t> by_time;
  for (std::size_t i = 1; i < times.size(); ++i) by_time.push_back(i);
  std::sort(by_time.begin(), by_time.end(), [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  const double enough = kNearly * *std::min_element(times.begin(), times.end());
  std::vector<std::size_t> finalists;
  if (std::isfinite(times[0])) finalists.push_back(0);
  for (const std::size_t i : by_time) {
    if (finalists.size() < kFinalists && times[i] <= enough && std::isfinite(times[i])) finalists.push_back(i);
  }
  return finalists;
}

std::string section_name() { return gpu::facts().name + ", " + gemm_library(); }

std::string hex_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

cublasLtMatmulAlgo_t algorithm_from_hex(const std::string& text) {
  constexpr std::size_t kDigits = 16;  // of one word
  cublasLtMatmulAlgo_t algorithm{};
  if (text.size() != kDigits * std::size(algorithm.data)) throw std::invalid_argument("an algorithm of the wrong length");
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) {
    algorithm.data[i] = std::stoull(text.substr(i * kDigits, kDigits), nullptr, 16);
  }
  return algorithm;
}

ordered_json parse_table(const std::filesystem::path& path) {
  const std::string text = read_file(path, "table of matrix products");
  try {
    return ordered_json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::config, "{}: not a table of matrix products: {}", path.string(), error.what());
  }
}

}  // namespace

std::optional<Choice> choose_first(Plan& plan) {
  const std::vector<cublasLtMatmulAlgo_t> all = plan.algorithms(kCandidates, kHeuristicWorkspace);
  if (all.empty()) return std::nullopt;
  return Choice{all.front()};
}

std::optional<Choice> choose_by_time(Plan& plan, const Operands& operands) {
  const std::vector<cublasLtMatmulAlgo_t> all = candidates(plan);
  if (all.empty()) return std::nullopt;
  Operands on = operands;
  DeviceBlock copy(nullptr, &gpu::release);
  if (plan.key().reads_c && on.residual == on.c) {
    copy = copy_of_c(plan.key(), operands);
    if (copy == nullptr) return std::nullopt;
    on.residual = on.c = copy.get();
  }
  const std::vector<double> in_turns = time_in_turns(plan, on, all);
  std::optional<Choice> choice;
  const bool large = *std::min_element(in_turns.begin(), in_turns.end()) >= kLargeMicroseconds;
  for (const std::size_t i : finalists_of(in_turns)) {
    const double time = large ? time_alone(plan, on, all[i], in_turns[i]) : in_turns[i];
    if (!choice) choice = Choice{all[i], time, time};
    if (time < kClearly * choice->first_microseconds && time < choice->microseconds)
      choice = Choice{all[i], time, choice->first_microseconds};
  }
  return choice;
}

void save_choices(const std::filesystem::path& path, const ChoiceTable& choices) {
  ordered_json file = std::filesystem::exists(path) ? parse_table(path) : ordered_json::object();
  ordered_json& section = file[section_name()];
  for (const auto& [product, choice] : choices) {
    section[product] = {{"algorithm", hex_of(choice.algorithm)},
                        {"microseconds", choice.microseconds},
                        {"first_microseconds", choice.first_microseconds}};
  }
  write_file_atomically(path, file.dump(1) + "\n");
}

ChoiceTable load_choices(const std::filesystem::path& path) {
  const ordered_json file = parse_table(path);
  ChoiceTable choices;
  try {
    const auto section = file.find(section_name());
    if (section == file.end()) return choices;
    for (const auto& [product, choice] : section->items()) {
      choices[product] = {algorithm_from_hex(choice.at("algorithm").get<std::string>()), choice.at("microseconds").get<double>(),
                          choice.at("first_microseconds").get<double>()};
    }
  } catch (const std::exception& error) {  // of the JSON library, or of a number that is none
    fail(ExitCode::config, "{}: not a table of matrix products: {}", path.string(), error.what());
  }
  return choices;
}

}  // namespace cohort::ops::cuda
