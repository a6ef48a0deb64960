#include <algorithm>

#include "base/text.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "mesh/mesh_shape.hpp"
#include "train/proof.hpp"

namespace cohort {
namespace {

// Whether this build can run the layout was settled when the run file was loaded; a plan may be for another build.
constexpr BuildFeatures kAnyBuild{.cuda = true};

// The run without its layout, whose keys would be refused beside another one's.
RunConfig without_layout(const RunConfig& run) {
  RunConfig config = run;
  config.parallel = {};
  // A type of sums that some strategies have is not a mistake in the others.
  std::erase_if(config.origins, [](const auto& origin) {
    return origin.first.starts_with("parallel.") || origin.first == "precision.reduction";
  });
  return config;
}

// Cuts the global batch for so many data-parallel ranks: by the run's micro-batch or the next smaller one of which a whole number
// passes each rank, in a pipeline a multiple of its stages if there is one.
void cut_batch(RunConfig& config, Count dp) {
  TrainSection& train = config.train;
  const Count most = train.micro_batch;
  const auto fitting = [&](Count unit) {
    Count size = most;
    while (size > 0 && train.global_batch % (size * dp * unit) != 0) --size;
    return size;
  };
  if (const Count size = fitting(config.parallel.pp)) {
    train.micro_batch = size;
  } else if (const Count any = fitting(1)) {
    train.micro_batch = any;
  }
  train.accumulation = 0;
}

std::string name_of_layout(const RunConfig& config) {
  const ParallelSection& p = config.parallel;
  std::vector<std::string> parts;
  for (const auto& [name, degree] : {std::pair{"dp", p.dp}, {"pp", p.pp}, {"cp", p.cp}, {"tp", p.tp}}) {
    if (degree > 1) parts.push_back(fmt::format("{} {}", name, degree));
  }
  std::string name = parts.empty() ? "one rank" : join(parts, " x ");
  name += ", " + p.data;
  if (p.sequence) name += ", sequence";
  if (p.tensor_overlap) name += " overlapped";
  if (p.pp > 1) name += ", " + p.schedule;
  if (p.chunks > 1) name += fmt::format(" in {}", p.chunks);
  if (p.shard_ranks > 0) name += fmt::format(" in {}", p.shard_ranks);
  if (p.offload != "none") name += ", offload " + p.offload;
  return name;
}

}  // namespace

RunConfig reference_config(const RunConfig& run) {
  RunConfig config = without_layout(run);
  config.parallel.data = "monolith";
  cut_batch(config, 1);
  validate(config, 1, kAnyBuild);
  return config;
}

Layout layout_from_words(const RunConfig& run, const std::string& words, int ranks) {
  Layout layout{.name = {}, .config = without_layout(run), .ranks = ranks};
  if (words.empty()) fail(ExitCode::config, "empty layout: give keys of [parallel], such as dp=2,tp=2,data=zero1");
  for (const std::string& word : split(words, ',')) apply_override(layout.config, "parallel." + word);
  for (auto& [key, origin] : layout.config.origins) {
    if (key.starts_with("parallel.")) origin = "layout '" + words + "'";
  }
  ParallelSection& parallel = layout.config.parallel;
  const Count model = parallel.pp * parallel.cp * parallel.tp;
  if (parallel.dp > 0) layout.ranks = static_cast<int>(std::min<Count>(parallel.dp * model, ranks + 1));
  cut_batch(layout.config, parallel.dp > 0 ? parallel.dp : std::max<Count>(1, ranks / model));
  if (layout.ranks > ranks) {
    fail(ExitCode::config, "layout '{}' needs {}, but the job has {}", words, counted(parallel.dp * model, "rank"), ranks);
  }
  validate(layout.config, layout.ranks, kAnyBuild);
  layout.name = name_of_layout(layout.config);
  return layout;
}

std::vector<Layout> all_layouts(const RunConfig& run, int ranks, std::vector<std::string>& refused) {
  std::vector<MeshShape> meshes = nearest_meshes(MeshShape(ranks, 1, 1, 1), ranks, static_cast<std::size_t>(ranks) * 64);
  std::vector<Layout> layouts;
  const auto add = [&](const std::string& words) {
    try {
      layouts.push_back(layout_from_words(run, words, ranks));
    } catch (const Error& error) {
      const std::string reason = error.what();
      if (std::find(refused.begin(), refused.end(), reason) == refused.end()) refused.push_back(reason);
    }
  };
  bool told = false;  // that such a strategy has no pipelines: once is enough
  for (const MeshShape& mesh : meshes) {
    const std::string degrees = fmt::format("dp={},pp={},cp={},tp={}", mesh.size(Axis::dp), mesh.size(Axis::pp),
                                            mesh.size(Axis::cp), mesh.size(Axis::tp));
    const int replicas = mesh.size({Axis::dp, Axis::cp});
    for (const char* data : {"naive", "hooks", "bucketed", "zero1", "zero2", "zero3"}) {
      const std::string strategy = data;
      if (replicas == 1 && strategy != "bucketed") continue;  // nothing to reduce: all are one
      const bool refused_with_stages = mesh.size(Axis::pp) > 1 && (strategy == "zero2" || strategy == "zero3");
      if (!refused_with_stages || !told) add(degrees + ",data=" + strategy);
      told = told || (refused_with_stages && strategy == "zero3");
    }
    if (mesh.size(Axis::tp) > 1) {
      const std::string sequence = degrees + ",sequence=true" + (mesh.size(Axis::pp) > 1 || replicas == 1 ? "" : ",data=zero3");
      add(sequence);
      add(sequence + ",tensor_overlap=true");
    }
    if (mesh.size(Axis::pp) > 1) {
      add(degrees + ",schedule=gpipe");
      add(degrees + ",schedule=interleaved,chunks=2" + (replicas > 1 ? ",data=zero1" : ""));
    }
    for (int shards = 2; shards < replicas; ++shards) {
      if (replicas % shards == 0) add(fmt::format("{},data=zero3,shard_ranks={}", degrees, shards));
    }
  }
  return layouts;
}

}  // namespace cohort
