// `cohort bench checkpoint`: how fast checkpoints are written and read, beside what the disk takes and gives.
#include "commands/bench/bench.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/page_cache.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "checkpoint/write/save.hpp"
#include "checkpoint/write/saver.hpp"
#include "comm/consensus.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "hdf5/hdf5.hpp"
#include "observe/clock.hpp"
#include "runtime/runtime.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct BenchCheckpointOptions {
  std::string folder = ".";
  Bytes bytes = 512 * kMiB;  // of a checkpoint, all ranks together
  Count repeats = 3;
  bool json = false;
};

// A file for plain reads and writes, without any buffer of ours.
class PlainFile {
 public:
  PlainFile(const fs::path& path, int flags) : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    check(fd_ >= 0);
  }
  ~PlainFile() { ::close(fd_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  void write(const Tensor& from) const {
    const auto* bytes = static_cast<const char*>(from.raw());
    for (Bytes at = 0; at < from.bytes();) at += moved(::write(fd_, bytes + at, piece(from.bytes() - at)));
    check(::fsync(fd_) == 0);
  }
  void read(const Tensor& into) const {
    auto* bytes = static_cast<char*>(into.raw());
    for (Bytes at = 0; at < into.bytes();) at += moved(::read(fd_, bytes + at, piece(into.bytes() - at)));
  }
  // Takes the file out of the system's cache, so that a read asks the disk.
  void forget() const { forget_cached(fd_); }

 private:
  static std::size_t piece(Bytes left) { return static_cast<std::size_t>(std::min<Bytes>(left, 8 * kMiB)); }
  Bytes moved(ssize_t n) const {
    check(n > 0);
    return n;
  }
  void check(bool ok) const {
    if (!ok) fail(ExitCode::io, "{}: {}", path_.string(), std::strerror(errno));
  }

  fs::path path_;
  int fd_;
};

void forget_files(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) PlainFile(entry.path(), O_RDONLY).forget();
}

// One way to write and read the same bytes.
struct Way {
  std::string name;
  std::function<void()> remove;  // what was written before, if anything was
  std::function<void()> write;   // until it is on disk
  std::function<void()> forget;  // what was written, out of the cache
  std::function<void()> read;
  std::vector<double> write_seconds = {}, read_seconds = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(Communicator& world, const BenchCheckpointOptions& options) : world_(world), options_(options) {
    std::string folder;
    if (world.rank() == 0) folder = (fs::absolute(options.folder) / fmt::format("cohort-bench-{}", ::getpid())).string();
    folder_ = broadcast_text(world, folder, 0);
    fail_together(world, "making the folder of the benchmark", [&] {
      if (world.rank() != 0) return;
      make_folders(folder_.parent_path());
      if (!fs::create_directory(folder_))
        fail(ExitCode::io, "{} already exists: remove it, or choose another --folder", folder_.string());
    });
    make_shards();
  }
  ~Bench() {
    std::error_code ignored;
    if (world_.rank() == 0) fs::remove_all(folder_, ignored);
  }

  nlohmann::ordered_json run() {
    std::vector<Way> ways = make_ways();
    // In turns, so that a disk that gets slower or faster meanwhile does so for all.
    for (Count repeat = 0; repeat < options_.repeats; ++repeat) {
      for (Way& way : ways) {
        // Before the clock starts: saves would remove their predecessor, the plain file would be written into its own place.
        if (world_.rank() == 0) {
          way.remove();
          flush_to_disk(folder_);
        }
        way.write_seconds.push_back(time(way.write));
        if (world_.rank() == 0) way.forget();
        world_.barrier();
        way.read_seconds.push_back(time(way.read));
      }
    }
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    const auto rate = [&](const std::vector<double>& seconds) { return static_cast<double>(bytes_) / median(seconds); };
    const double plain_write = rate(ways.front().write_seconds);
    const double plain_read = rate(ways.front().read_seconds);
    for (const Way& way : ways) {
      rows.push_back({{"what", way.name},
                      {"write_bytes_per_second", rate(way.write_seconds)},
                      {"write_share", rate(way.write_seconds) / plain_write},
                      {"read_bytes_per_second", rate(way.read_seconds)},
                      {"read_share", rate(way.read_seconds) / plain_read}});
    }
    nlohmann::ordered_json result{{"ranks", world_.size()}, {"bytes", bytes_}, {"repeats", options_.repeats}, {"ways", rows}};
    result["background"] = background();
    return result;
  }

 private:
  // Each rank holds as much, in tensors like those of a model: matrices of 16 MiB, cut over the ranks as ZeRO does.
  void make_shards() {
    constexpr Bytes kTensor = 16 * kMiB;
    const Count tensors = std::max<Count>(1, options_.bytes / kTensor);
    const Count elements = kTensor / size_of(DType::f32);
    const Shape shape{elements / 1024, 1024};
    const Count begin = elements * world_.rank() / world_.size();
    const Count end = elements * (world_.rank() + 1) / world_.size();
    own_ = Tensor::zeros("bench.state", {tensors * (end - begin)});
    const CounterRandom random(1, RandomPurpose::test, static_cast<std::uint32_t>(world_.rank()));
    for (Count i = 0; i < own_.elements(); ++i) own_.f32()[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(i)));
    for (Count t = 0; t < tensors; ++t) {
      shards_.push_back({fmt::format("/model/tensors/{}", t),
                         static_cast<int>(t),
                         {shape, begin, end - begin},
                         own_.slice(t * (end - begin), (t + 1) * (end - begin)),
                         true});
    }
    bytes_ = tensors * kTensor;
    state_.model = "benchmark";
    state_.run_file = "# of a benchmark\n";
  }

  // As many bytes as a checkpoint, and as random: zeros are less work for some disks.
  Tensor plain_elements() const {
    const Tensor all = Tensor::zeros("bench.all", {bytes_ / size_of(DType::f32)});
    for (Count at = 0; at < all.elements(); at += own_.elements()) {
      const Count n = std::min(own_.elements(), all.elements() - at);
      all.slice(at, at + n).copy_from(own_.slice(0, n));
    }
    return all;
  }

  std::vector<Way> make_ways() {
    std::vector<Way> ways;
    const fs::path plain = folder_ / "plain";
    const Tensor all = world_.rank() == 0 ? plain_elements() : Tensor();
    ways.push_back({"one process, plain sequential", [=] { fs::remove(plain); },
                    [=, this] {
                      if (world_.rank() == 0) PlainFile(plain, O_WRONLY | O_CREAT | O_TRUNC).write(all);
                    },
                    [=] { PlainFile(plain, O_RDONLY).forget(); },
                    [=, this] {
                      if (world_.rank() == 0) PlainFile(plain, O_RDONLY).read(all);
                    }});
    const auto add = [&](const std::string& name, const SaveOptions& save_options) {
      const fs::path run = folder_ / std::to_string(ways.size());
      ways.push_back({name, [=] { fs::remove_all(run); }, [=, this] { save_shards(world_, run, shards_, state_, save_options); },
                      [=] { forget_files(*find_latest(run)); }, [=, this] { load_shards(world_, run, shards_, "benchmark"); }});
    };
    add("per_rank", {.form = CheckpointForm::per_rank});
    add("consolidated, gathered", {.form = CheckpointForm::consolidated});
    if (world_.size() > 1 && hdf5::File::has_parallel()) {
      add("consolidated, collective", {.form = CheckpointForm::consolidated, .storage = {.collective = true}});
    }
    return ways;
  }

  // Seconds of the slowest rank.
  double time(const std::function<void()>& work) {
    world_.barrier();
    const double begin = steady_seconds();
    fail_together(world_, "the benchmark", [] {});
    work();
    return all_reduce_value(world_, steady_seconds() - begin, ReduceOp::max);
  }

  // How long a save in the background keeps the training waiting, beside a plain copy of the same memory.
  nlohmann::ordered_json background() {
    CheckpointSaver saver(world_, folder_ / "background", {.form = CheckpointForm::per_rank}, true);
    const Tensor copy = Tensor::zeros("bench.copy", {own_.elements()});
    std::vector<double> stalls, copies, whole;
    for (Count repeat = 0; repeat <= options_.repeats; ++repeat) {
      const double stall = time([&] { saver.save(shards_, state_); });
      whole.push_back(saver.finish()->seconds);
      const double copying = time([&] { copy.copy_from(own_); });
      if (repeat == 0) continue;  // allocates the memory of the copy
      stalls.push_back(stall);
      copies.push_back(copying);
    }
    return {{"stall_seconds", median(stalls)}, {"copy_seconds", median(copies)}, {"seconds", median(whole)}};
  }

  Communicator& world_;
  const BenchCheckpointOptions& options_;
  fs::path folder_;
  Tensor own_;
  std::vector<StateShard> shards_;
  TrainingState state_;
  Bytes bytes_ = 0;
};

void print(const nlohmann::ordered_json& result) {
  fmt::print("Checkpoints of {}, {}, medians of {}; writes end on disk, reads come from disk:\n",
             human_bytes(result.at("bytes").get<Bytes>()), counted(result.at("ranks").get<int>(), "rank"),
             result.at("repeats").get<Count>());
  Table table({"", "write", "of plain", "read", "of plain"});
  for (const auto& row : result.at("ways")) {
    const auto rate = [&](const char* key) { return human_bytes(static_cast<Bytes>(row.at(key).get<double>())) + "/s"; };
    const auto share = [&](const char* key) { return fmt::format("{:.0f} %", 100.0 * row.at(key).get<double>()); };
    table.add({row.at("what").get<std::string>(), rate("write_bytes_per_second"), share("write_share"),
               rate("read_bytes_per_second"), share("read_share")});
  }
  const auto& background = result.at("background");
  fmt::print(
      "{}Asynchronous (per_rank): on disk after {:.3f} s, of which training waits {:.3f} s; a plain memory copy takes {:.3f} "
      "s.\n",
      table.str(4), background.at("seconds").get<double>(), background.at("stall_seconds").get<double>(),
      background.at("copy_seconds").get<double>());
}

int bench_checkpoint(const BenchCheckpointOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  runtime.open_device(DeviceKind::cpu, false);
  const nlohmann::ordered_json result = Bench(*world, options).run();
  if (world->rank() != 0) return 0;
  if (options.json) {
    fmt::print("{}\n", result.dump());
  } else {
    print(result);
  }
  return 0;
}

}  // namespace

void add_bench_checkpoint(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("checkpoint", "Time writing and reading checkpoints against plain files of the same size");
  command->footer(
      "The folder should be on the file system that runs use. The page cache is dropped between writing and reading.\n"
      "\n"
      "Examples:\n"
      "  cohort bench checkpoint --folder runs\n"
      "  mpirun -np 4 cohort bench checkpoint --folder runs --size 64MiB");
  const auto options = std::make_shared<BenchCheckpointOptions>();
  command->add_option("--folder", options->folder, "Where to write; a folder is created there and removed")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_option("--size", options->bytes, "Size of a checkpoint, over all ranks")
      ->transform(CLI::AsSizeValue(false))
      ->check(integer_from(1))
      ->default_str("512MiB");
  command->add_option("--repeats", options->repeats, "Repeats of each method, interleaved")
      ->check(integer_from(1))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return bench_checkpoint(*options); }; });
}

}  // namespace cohort
