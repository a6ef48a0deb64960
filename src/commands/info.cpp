// `cohort info`: what this binary is and what was built into it. Starts neither MPI nor Kokkos; under a launcher rank 0 alone
// prints.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/machine.hpp"
#include "base/text.hpp"
#include "build_facts.hpp"
#include "comm/nccl_communicator.hpp"
#include "comm/nccl_settings.hpp"
#include "comm/nccl_version.hpp"
#include "commands/commands.hpp"
#include "runtime/affinity.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/kokkos.hpp"
#include "runtime/mpi_world.hpp"

namespace cohort {
namespace {

nlohmann::ordered_json collect_info() {
  namespace facts = build_facts;
  const std::string host_space = kokkos_host_space();
  const std::string default_space = kokkos_default_space();
  nlohmann::ordered_json info;
  info["version"] = facts::kVersion;
  info["revision"] = facts::kRevision;
  info["build_type"] = facts::kBuildType;
  info["compiler"] = facts::kCompiler;
  info["flags"] = facts::kFlags;
  info["sanitizers"] = facts::kSanitized;
  info["mpi"] = mpi_library_version();
  info["kokkos"] = facts::kKokkosVersion;
  info["kokkos_default_space"] = default_space;
  info["kokkos_host_space"] = host_space;
  info["hdf5"] = facts::kHdf5Version;
  info["hdf5_parallel"] = facts::kHdf5Parallel;
  info["cblas"] = facts::kCblas;
  info["onednn"] = facts::kOneDnn;
  info["matrix_products"] = facts::kOneDnn.empty() ? "CBLAS" : "oneDNN";
  info["sentencepiece"] = facts::kSentencePiece;
  info["cuda"] = facts::kCuda;
  info["nccl"] = facts::kNccl;
  info["nccl_version"] =
      facts::kNccl ? nlohmann::ordered_json(nccl_version_text(nccl_version())) : nlohmann::ordered_json(nullptr);
  info["nccl_settings"] = nlohmann::ordered_json::array();
  for (const NcclSetting& setting : nccl_settings()) {
    info["nccl_settings"].push_back(
        {{"name", setting.name}, {"value", setting.value}, {"from", setting.from}, {"counts", setting.counts}});
  }
  info["cpu"] = cpu_model();
  info["cores_online"] = online_cores();
  info["cores_allowed"] = cores_text(allowed_cores());
  return info;
}

std::string built(bool is_built) { return is_built ? "built in" : "not built in"; }

std::string as_table(const nlohmann::ordered_json& info) {
  const auto text = [&](const char* key) { return info.at(key).get<std::string>(); };
  const auto flag = [&](const char* key) { return info.at(key).get<bool>(); };
  Table table({"cohort", text("version")});
  table.add({"revision", text("revision")});
  table.add({"build", text("build_type") + (flag("sanitizers") ? ", with sanitizers" : "")});
  table.add({"compiler", text("compiler")});
  table.add({"flags", text("flags")});
  table.add({"MPI", text("mpi")});
  table.add({"Kokkos", fmt::format("{}, runs on {}, on the host on {}", text("kokkos"), text("kokkos_default_space"),
                                   text("kokkos_host_space"))});
  table.add({"HDF5", fmt::format("{}, {}", text("hdf5"), flag("hdf5_parallel") ? "parallel" : "serial")});
  table.add({"CBLAS", text("cblas")});
  table.add({"oneDNN", text("onednn").empty() ? built(false) : text("onednn")});
  table.add({"matrix products", "by " + text("matrix_products")});
  table.add({"SentencePiece", built(flag("sentencepiece"))});
  table.add({"CUDA", built(flag("cuda"))});
  table.add({"NCCL", flag("nccl") ? text("nccl_version") : built(false)});
  for (const NcclSetting& setting : nccl_settings()) table.add({"", describe(setting)});
  table.add({"CPU", text("cpu")});
  table.add(
      {"cores", fmt::format("{}, of which this process may use {}", info.at("cores_online").get<int>(), text("cores_allowed"))});
  return table.str(2);
}

}  // namespace

void add_info_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("info", "Show versions, compiler, libraries and what was built in");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([&action, json] {
    action = [json] {
      if (!is_printing_rank()) return 0;
      const auto info = collect_info();
      fmt::print("{}", *json ? info.dump(2) + '\n' : as_table(info));
      return 0;
    };
  });
}

}  // namespace cohort
