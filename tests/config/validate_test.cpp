// Values that must fit each other: what is filled in, what is refused and with which numbers.
#include "config/validate.hpp"

#include <gtest/gtest.h>

#include "config/fp8_rules.hpp"
#include "config/run_file.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

// A valid gpt2 run with these overrides on `world` ranks.
RunConfig gpt2(const std::vector<std::string>& overrides = {}, Count world = 1, BuildFeatures features = {}) {
  RunConfig config = parse_run_file("[data]\ntokens = \"x.tokens\"\n", "run.toml", overrides);
  validate(config, world, features);
  return config;
}
RunConfig llama(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), "model.kind=llama");
  return gpt2(overrides);
}
RunConfig mlp(const std::vector<std::string>& overrides = {}, Count world = 1) {
  RunConfig config = parse_run_file("[model]\nkind = \"mlp\"\n[data]\nkind = \"two_moons\"\n", "run.toml", overrides);
  validate(config, world);
  return config;
}

TEST(Validate, FillsDerivedValues) {
  const RunConfig config = gpt2({"run.name=a", "train.micro_batch=3", "train.accumulation=2"}, 4);
  EXPECT_EQ(config.run.directory, "runs/a");
  EXPECT_EQ(config.model.ffn_width, 512);
  EXPECT_EQ(config.parallel.dp, 4);
  EXPECT_EQ(config.train.global_batch, 24);
  EXPECT_EQ(config.schedule.decay_steps, config.train.steps);
  EXPECT_EQ(config.model.vocabulary, 0);  // known when the token file is open
  EXPECT_EQ(gpt2({"train.global_batch=24", "train.micro_batch=3"}, 4).train.accumulation, 2);
  EXPECT_EQ(gpt2({"run.directory=/scratch/x"}).run.directory, "/scratch/x");
}

TEST(Validate, FillsLlamasSizes) {
  EXPECT_EQ(llama().model.kv_heads, 4);
  EXPECT_EQ(llama().model.ffn_width, 352);                    // 8/3 x 128 = 341.3, up to a multiple of 32
  EXPECT_EQ(llama({"model.width=96"}).model.ffn_width, 256);  // 8/3 x 96 = 256 exactly
  EXPECT_EQ(llama({"model.width=4096"}).model.ffn_width, 10944);
  EXPECT_EQ(llama({"model.kv_heads=2"}).model.kv_heads, 2);
  EXPECT_EQ(llama({"model.ffn_width=100"}).model.ffn_width, 100);
}

TEST(Validate, ChecksHowManyLayersAreCheckpointed) {
  const std::string full = "model.activation_checkpointing=full";
  EXPECT_EQ(llama({full, "model.layers=3", "model.checkpointed_layers=3"}).model.checkpointed_layers, 3);
  EXPECT_ERROR(llama({full, "model.layers=3", "model.checkpointed_layers=4"}), ExitCode::config,
               "checkpointed_layers=4: ", "model.checkpointed_layers = 4 of 3 layers", "0 for all");
}

TEST(Validate, AutoIsTheDeviceThatThereIs) {
  EXPECT_EQ(gpt2({"device.kind=auto"}).device.kind, "cpu");
  EXPECT_EQ(gpt2({"device.kind=auto"}, 1, {.cuda = true}).device.kind, "cpu");
  const RunConfig on_gpus = gpt2({"device.kind=auto"}, 1, {.cuda = true, .gpus = true});
  EXPECT_EQ(on_gpus.device.kind, "cuda");
  EXPECT_EQ(on_gpus.parallel.bucket_mib, gpt2({"device.kind=cuda"}, 1, {.cuda = true}).parallel.bucket_mib);
}

TEST(Validate, DoingItTwiceChangesNothing) {
  RunConfig config = llama({"train.accumulation=2"});
  const RunConfig once = config;
  validate(config, 1);
  EXPECT_EQ(config, once);
}

TEST(Validate, HeadsDivideTheWidth) {
  EXPECT_ERROR(gpt2({"model.width=100", "model.heads=3"}), ExitCode::config, "--set model.width=100: ", "model.heads = 3",
               "99 or 102", "2 or 4");
  EXPECT_ERROR(gpt2({"model.width=2", "model.heads=4"}), ExitCode::config, "widths that fit: 4", "heads that fit: 2");
  EXPECT_NO_THROW(gpt2({"model.width=12", "model.heads=4"}));
  EXPECT_ERROR(llama({"model.width=12", "model.heads=4"}), ExitCode::config, "RoPE", "8 or 16", "heads that fit: 3 or 6");
  EXPECT_ERROR(llama({"model.width=7", "model.heads=1"}), ExitCode::config, "6 or 8", "heads that fit: none");
  EXPECT_ERROR(llama({"model.kv_heads=3"}), ExitCode::config, "--set model.kv_heads=3: ", "model.heads = 4", "2 or 4");
  EXPECT_ERROR(llama({"model.kv_heads=8"}), ExitCode::config, "kv_heads that fit: 4");
}

TEST(Validate, KeysThatWouldBeIgnoredAreRefused) {
  EXPECT_ERROR(gpt2({"model.rope_theta=500"}), ExitCode::config,
               "--set model.rope_theta=500: ", "no effect with model.kind = \"gpt2\"", "llama");
  EXPECT_ERROR(gpt2({"model.kv_heads=4"}), ExitCode::config, "model.kv_heads has no effect");
  EXPECT_ERROR(llama({"model.dropout=0.1"}), ExitCode::config, "model.dropout has no effect", "only with gpt2");
  EXPECT_ERROR(gpt2({"schedule.kind=constant", "schedule.final_fraction=0.5"}), ExitCode::config, "schedule.final_fraction",
               "cosine or linear");
  EXPECT_ERROR(gpt2({"parallel.data=naive", "parallel.bucket_mib=1"}), ExitCode::config, "parallel.bucket_mib has no effect");
  EXPECT_ERROR(gpt2({"model.checkpointed_layers=2"}), ExitCode::config, "model.checkpointed_layers has no effect", "\"none\"",
               "selective or full");
  EXPECT_ERROR(mlp({"model.context=64"}), ExitCode::config, "model.context has no effect");
  EXPECT_ERROR(mlp({"sample.tokens=5"}), ExitCode::config, "sample.tokens has no effect");
  EXPECT_ERROR(gpt2({"data.samples=5"}), ExitCode::config, "data.samples has no effect");
  RunConfig from_file = parse_run_file("[data]\ntokens = \"x\"\n[model]\nrope_theta = 500\n", "run.toml");
  EXPECT_ERROR(validate(from_file, 1), ExitCode::config, "run.toml:4: ");
}

TEST(Validate, QuestionsAreOfAFileAndForTextModels) {
  EXPECT_EQ(gpt2({"train.validation_choices=q.jsonl", "train.validation_questions=9"}).train.validation_questions, 9);
  EXPECT_ERROR(gpt2({"train.validation_questions=9"}), ExitCode::config, "train.validation_questions = 9",
               "train.validation_choices");
  EXPECT_ERROR(mlp({"train.validation_choices=q.jsonl"}), ExitCode::config, "train.validation_choices", "two_moons");
  EXPECT_ERROR(mlp({"data.documents=separate"}), ExitCode::config, "data.documents", "two_moons");
  EXPECT_TRUE(mlp({"train.validate_at_start=true"}).train.validate_at_start);
}

TEST(Validate, ModelAndDataGoTogether) {
  EXPECT_ERROR(gpt2({"model.kind=mlp"}), ExitCode::config, "--set model.kind=mlp: ", "two_moons");
  RunConfig config = parse_run_file("[model]\nkind = \"mlp\"\n", "run.toml");
  EXPECT_ERROR(validate(config, 1), ExitCode::config, "run.toml:2: ", "data.kind = \"two_moons\"");
  config = parse_run_file("[data]\nkind = \"two_moons\"\n", "run.toml");
  EXPECT_ERROR(validate(config, 1), ExitCode::config, "run.toml:2: ", "\"gpt2\"", "\"tokens\"");
  config = parse_run_file("[train]\nsteps = 5\n", "run.toml");
  EXPECT_ERROR(validate(config, 1), ExitCode::config, "data.tokens is not set", "cohort data prepare");
  EXPECT_ERROR(mlp({"data.samples=7"}), ExitCode::config, "data.samples = 7", "8");
  EXPECT_EQ(mlp().model.ffn_width, 0);
}

TEST(Validate, ShardsAndTheNamesOfFsdp) {
  EXPECT_EQ(gpt2({"parallel.data=NO_SHARD"}, 4).parallel.data, "bucketed");
  EXPECT_EQ(gpt2({"parallel.data=SHARD_GRAD_OP"}, 4).parallel.data, "zero2");
  EXPECT_EQ(gpt2({"parallel.data=FULL_SHARD"}, 4).parallel.data, "zero3");
  EXPECT_EQ(gpt2({"parallel.data=HYBRID_SHARD", "parallel.shard_ranks=2"}, 4).parallel.data, "zero3");
  EXPECT_ERROR(gpt2({"parallel.data=HYBRID_SHARD"}, 4), ExitCode::config, "HYBRID_SHARD", "parallel.shard_ranks");
  EXPECT_ERROR(gpt2({"parallel.data=zero3", "parallel.shard_ranks=3"}, 4), ExitCode::config, "parallel.shard_ranks = 3",
               "2 or 4");
  EXPECT_ERROR(gpt2({"parallel.data=bucketed", "parallel.wrap=model"}, 4), ExitCode::config, "parallel.wrap has no effect");
  EXPECT_ERROR(gpt2({"parallel.data=zero1", "parallel.bucket_mib=2"}, 4), ExitCode::config, "parallel.bucket_mib has no effect");
}

TEST(Validate, ShardsMayBeSummedInSixteenBits) {
  for (const char* data : {"bucketed", "zero1", "zero2", "zero3"})
    gpt2({fmt::format("parallel.data={}", data), "precision.policy=bf16", "precision.reduction=compute"}, 2);
  EXPECT_ERROR(gpt2({"parallel.data=naive", "precision.policy=bf16", "precision.reduction=compute"}, 2), ExitCode::config,
               "precision.reduction has no effect");
}

TEST(Validate, PipelinesAreChecked) {
  const RunConfig run = gpt2({"parallel.pp=2", "parallel.schedule=interleaved", "parallel.chunks=2", "train.accumulation=4"}, 4);
  EXPECT_EQ(run.parallel.dp, 2);
  EXPECT_ERROR(gpt2({"parallel.pp=8"}, 8), ExitCode::config, "--set parallel.pp=8: ", "4 layers", "at most 4");
  EXPECT_ERROR(gpt2({"parallel.pp=2", "parallel.schedule=interleaved", "parallel.chunks=2", "train.accumulation=3"}, 4),
               ExitCode::config, "3 micro-batches", "2 or 4", "train.accumulation = 3");
  EXPECT_ERROR(gpt2({"parallel.pp=2", "parallel.data=zero3"}, 4), ExitCode::config, "zero3", "zero1");
  EXPECT_ERROR(gpt2({"parallel.schedule=gpipe"}, 4), ExitCode::config, "parallel.schedule has no effect with parallel.pp = 1");
  EXPECT_ERROR(gpt2({"parallel.pp=2", "parallel.chunks=2"}, 4), ExitCode::config, "parallel.chunks has no effect", "interleaved");
}

TEST(Validate, OffloadGoesWithZeroAndTheDevice) {
  const std::string folder = "parallel.offload_directory=/scratch", optimizer = "parallel.offload=optimizer",
                    parameters = "parallel.offload=parameters", zero3 = "parallel.data=zero3", zero1 = "parallel.data=zero1";
  const BuildFeatures cuda{.cuda = true};
  const auto on_gpu = [&](std::vector<std::string> overrides) {
    overrides.push_back("device.kind=cuda");
    return gpt2(overrides, 2, cuda);
  };
  EXPECT_EQ(gpt2({zero1}).parallel.offload, "none");
  EXPECT_NO_THROW(gpt2({zero1, optimizer, folder}));
  EXPECT_NO_THROW(on_gpu({zero1, optimizer}));
  EXPECT_NO_THROW(on_gpu({zero3, optimizer, folder}));
  EXPECT_NO_THROW(on_gpu({zero3, parameters}));
  EXPECT_NO_THROW(on_gpu({"parallel.data=FULL_SHARD", parameters, folder}));
  EXPECT_ERROR(gpt2({optimizer, folder}), ExitCode::config, "parallel.offload has no effect with parallel.data = \"bucketed\"",
               "zero1");
  EXPECT_ERROR(gpt2({zero1, folder}), ExitCode::config, "parallel.offload_directory has no effect",
               "only with optimizer or parameters");
  EXPECT_ERROR(gpt2({zero1, optimizer}), ExitCode::config, "--set parallel.offload=optimizer: ", "parallel.offload_directory",
               "\"none\"");
  EXPECT_ERROR(gpt2({zero3, parameters, folder}), ExitCode::config, "\"parameters\"", "\"optimizer\"", "\"cuda\"");
  EXPECT_ERROR(on_gpu({"parallel.data=zero2", parameters}), ExitCode::config, "\"zero2\"", "\"zero3\"", "\"optimizer\"");
}

TEST(Validate, TheLayoutMatchesTheWorld) {
  EXPECT_EQ(gpt2({"parallel.dp=3"}, 3).parallel.dp, 3);
  EXPECT_ERROR(gpt2({"parallel.dp=3"}, 4), ExitCode::config, "--set parallel.dp=3: ", "needs 3 ranks", "the job has 4",
               "parallel.dp = 4");
  for (const char* axis : {"pp", "cp", "tp"}) EXPECT_EQ(gpt2({fmt::format("parallel.{}=2", axis)}, 4).parallel.dp, 2);
  EXPECT_ERROR(gpt2({"parallel.tp=3"}, 3), ExitCode::config, "--set parallel.tp=3: ", "model.heads = 4", "2 or 4");
  EXPECT_ERROR(gpt2({"parallel.sequence=true"}, 2), ExitCode::config, "parallel.sequence has no effect with parallel.tp = 1",
               "2 or more");
  EXPECT_ERROR(gpt2({"parallel.tp=2", "parallel.tensor_overlap=true"}, 2), ExitCode::config,
               "parallel.tensor_overlap has no effect with parallel.sequence = false", "only with true");
  EXPECT_TRUE(gpt2({"parallel.tp=2", "parallel.sequence=true", "parallel.tensor_overlap=true"}, 2).parallel.tensor_overlap);
  EXPECT_EQ(gpt2({"parallel.cp=2"}, 4).parallel.dp, 2);
  EXPECT_EQ(gpt2({"parallel.cp=2", "device.kind=cuda"}, 4, {.cuda = true}).parallel.dp, 2);
  EXPECT_ERROR(gpt2({"parallel.cp=4", "model.context=20"}, 4), ExitCode::config, "--set parallel.cp=4: ", "model.context = 20",
               "16 or 24", "cp values that fit: 2 or 5");
  EXPECT_ERROR(mlp({"parallel.cp=2"}, 4), ExitCode::config, "parallel.cp = 2", "no sequence");
  EXPECT_ERROR(gpt2({"parallel.data=monolith"}, 2), ExitCode::config, "\"monolith\" runs on one rank, but the job has 2");
  EXPECT_ERROR(gpt2({"parallel.data=manual"}, 2), ExitCode::config, "\"manual\" runs on one rank");
  EXPECT_ERROR(gpt2({"parallel.data=manual", "train.micro_batch=3"}), ExitCode::config, "train.micro_batch = 3 is odd");
  EXPECT_NO_THROW(gpt2({"parallel.data=manual", "train.micro_batch=4"}));
}

TEST(Validate, BatchArithmetic) {
  EXPECT_ERROR(gpt2({"train.global_batch=100"}, 3), ExitCode::config,
               "--set train.global_batch=100: ", "micro_batch 8 x dp 3 = 24", "96 or 120");
  EXPECT_ERROR(gpt2({"train.global_batch=4"}, 3), ExitCode::config, "global batches that fit: 24");
  EXPECT_ERROR(gpt2({"train.global_batch=64", "train.accumulation=3"}, 4), ExitCode::config, "global_batch = 64",
               "micro_batch 8 x dp 4 x train.accumulation 3 = 96");
  EXPECT_NO_THROW(gpt2({"train.global_batch=96", "train.accumulation=3"}, 4));
}

TEST(Validate, ScheduleFitsTheRun) {
  EXPECT_ERROR(gpt2({"train.steps=10", "schedule.warmup_steps=10"}), ExitCode::config, "warmup_steps = 10", "train.steps = 10");
  EXPECT_NO_THROW(gpt2({"train.steps=10", "schedule.warmup_steps=9"}));
  EXPECT_ERROR(gpt2({"schedule.warmup_steps=20", "schedule.decay_steps=20"}), ExitCode::config, "decay_steps = 20");
  EXPECT_EQ(gpt2({"schedule.decay_steps=5000"}).schedule.decay_steps, 5000);
  EXPECT_EQ(gpt2({"schedule.kind=constant"}).schedule.decay_steps, 0);
}

TEST(Validate, RunNamesAreFolderNames) {
  for (const char* name : {"", "..", ".hidden", "-x", "a/b", "a b", "\"\\u0000\"", "\"a\\n\""}) {
    EXPECT_ERROR(gpt2({std::string("run.name=") + name}), ExitCode::config, "run.name", "folder");
  }
  EXPECT_ERROR(gpt2({"run.name=" + std::string(101, 'x')}), ExitCode::config, "run.name");
  EXPECT_NO_THROW(gpt2({"run.name=lab_1-a.2"}));
}

TEST(Validate, DevicesMustBeBuiltIn) {
  EXPECT_ERROR(gpt2({"device.kind=cuda"}), ExitCode::config, "--set device.kind=cuda: ", "built without CUDA");
  EXPECT_NO_THROW(gpt2({"device.kind=cuda"}, 1, {.cuda = true}));
}

// One run file serves both devices: what is meant for the other one may stay in it.
TEST(Validate, KeysOfTheOtherDeviceMayStay) {
  EXPECT_NO_THROW(gpt2({"device.share=true", "device.gemm_tuning=products.txt", "device.collective_timeout=5"}));
  EXPECT_NO_THROW(gpt2({"device.kind=cuda", "device.threads=2"}, 1, {.cuda = true}));
  EXPECT_ERROR(gpt2({"device.collective_timeout=0"}), ExitCode::config, "device.collective_timeout", "above 0");
}

TEST(Validate, BucketsFitTheDevice) {
  EXPECT_EQ(gpt2().parallel.bucket_mib, 4.0);
  EXPECT_EQ(gpt2({"device.kind=cuda"}, 1, {.cuda = true}).parallel.bucket_mib, 128.0);
  EXPECT_EQ(gpt2({"parallel.bucket_mib=0.5"}).parallel.bucket_mib, 0.5);
  EXPECT_EQ(gpt2({"parallel.bucket_mib=0"}).parallel.bucket_mib, 4.0);
  EXPECT_EQ(gpt2({"parallel.data=naive"}).parallel.bucket_mib, 0.0);  // there are none
}

TEST(Validate, PrecisionPolicies) {
  for (const char* policy : {"fp32", "bf16", "fp16"}) {
    EXPECT_EQ(gpt2({fmt::format("precision.policy={}", policy)}).precision.policy, policy);
  }
  EXPECT_ERROR(gpt2({"precision.policy=fp4"}), ExitCode::config, "precision.policy", "one of fp32, tf32, bf16, fp16, fp8");
  EXPECT_ERROR(gpt2({"precision.policy=tf32"}), ExitCode::config,
               "--set precision.policy=tf32: ", "on a CPU choose fp32, bf16 or fp16");
  EXPECT_NO_THROW(gpt2({"precision.policy=tf32", "device.kind=cuda"}, 1, {.cuda = true}));
  EXPECT_ERROR(gpt2({"precision.policy=tf32", "device.kind=cuda", "device.kernels=portable"}, 1, {.cuda = true}),
               ExitCode::config, "--set device.kernels=portable", "choose fp32, bf16 or fp16");
  EXPECT_ERROR(gpt2({"device.kernels=kokkos"}), ExitCode::config, "device.kernels", "one of tuned, portable");
  EXPECT_NO_THROW(gpt2({"device.kernels=portable"}));
}

// Every matrix that a rank multiplies in 8 bits has sides of a multiple of 16; the line says which has not.
TEST(Validate, KnowsWhichGpusMultiplyInEightBits) {
  for (const Count capability : {89, 90, 100, 120}) EXPECT_EQ(why_without_fp8(capability), "") << capability;
  for (const Count capability : {0, 70, 80, 86}) EXPECT_NE(why_without_fp8(capability), "") << capability;
  EXPECT_EQ(why_without_fp8(86), "needs GPUs of compute capability 8.9 or newer, and one of this job has 8.6");
}

TEST(Validate, Fp8IsForGpusAndSidesThatFit) {
  const auto fp8 = [](std::vector<std::string> overrides, Count world = 1) {
    overrides.insert(overrides.begin(), {"precision.policy=fp8", "device.kind=cuda"});
    return gpt2(overrides, world, {.cuda = true});
  };
  EXPECT_NO_THROW(fp8({}));
  EXPECT_NO_THROW(fp8({"parallel.tp=2"}, 2));
  EXPECT_ERROR(fp8({"parallel.tp=2", "parallel.sequence=true", "parallel.tensor_overlap=true"}, 2), ExitCode::config,
               "--set parallel.tensor_overlap=true: ", "one scale", "bf16");
  EXPECT_ERROR(gpt2({"precision.policy=fp8"}), ExitCode::config, "--set precision.policy=fp8: ", "compute capability 8.9",
               "on a CPU choose fp32, bf16 or fp16");
  EXPECT_ERROR(fp8({"device.kernels=portable"}), ExitCode::config, "--set device.kernels=portable: ", "portable");
  EXPECT_ERROR(mlp({"precision.policy=fp8"}), ExitCode::config, "on a CPU");
  EXPECT_ERROR(fp8({"model.width=136"}), ExitCode::config, "--set model.width=136: ", "multiple of 16", "128 or 144", "bf16");
  EXPECT_ERROR(fp8({"model.ffn_width=520"}), ExitCode::config, "model.ffn_width is 520", "512 or 528");
  EXPECT_ERROR(fp8({"model.ffn_width=528", "parallel.tp=2"}, 2), ExitCode::config, "model.ffn_width / parallel.tp 2 is 264");
  EXPECT_ERROR(fp8({"model.width=160", "parallel.tp=4"}, 4), ExitCode::config,
               "model.heads x head size 40 / parallel.tp 4 is 40");
  EXPECT_ERROR(fp8({"model.context=8", "train.micro_batch=3"}), ExitCode::config, "tokens of a micro-batch on a rank, 3 x",
               "16 or 32");
  EXPECT_NO_THROW(fp8({"model.context=8", "train.micro_batch=4"}));
}

TEST(Validate, ReductionIsThatOfBuckets) {
  EXPECT_EQ(gpt2({"precision.policy=bf16", "precision.reduction=compute"}, 2).precision.reduction, "compute");
  EXPECT_ERROR(gpt2({"precision.reduction=bf16"}), ExitCode::config, "one of fp32, compute");
  for (const char* strategy : {"naive", "hooks"}) {
    EXPECT_ERROR(gpt2({fmt::format("parallel.data={}", strategy), "precision.reduction=compute"}, 2), ExitCode::config,
                 "precision.reduction has no effect", "only with bucketed");
  }
}

TEST(Validate, LossScalesAreThoseOfFp16) {
  const std::string fp16 = "precision.policy=fp16";
  const RunConfig config = gpt2({fp16, "precision.loss_scale=1024", "precision.min_loss_scale=1024"});
  EXPECT_EQ(config.precision.loss_scale, 1024.0);
  EXPECT_ERROR(gpt2({fp16, "precision.loss_scale=2", "precision.min_loss_scale=4"}), ExitCode::config,
               "precision.min_loss_scale = 4 is above precision.loss_scale = 2");
  EXPECT_ERROR(gpt2({fp16, "precision.loss_scale=0"}), ExitCode::config, "precision.loss_scale", "above 0");
  EXPECT_ERROR(gpt2({fp16, "precision.loss_scale_interval=0"}), ExitCode::config, "precision.loss_scale_interval", "from 1");
  for (const char* key : {"loss_scale", "min_loss_scale", "loss_scale_interval"}) {
    EXPECT_ERROR(gpt2({"precision.policy=bf16", fmt::format("precision.{}=2", key)}), ExitCode::config, key,
                 "has no effect with precision.policy = \"bf16\"", "fp16");
  }
}

TEST(Validate, SkippingIsAsked) {
  EXPECT_EQ(gpt2().train.on_nonfinite, "stop");
  EXPECT_EQ(gpt2({"train.on_nonfinite=skip", "train.max_skips=3"}).train.max_skips, 3);
  EXPECT_ERROR(gpt2({"train.max_skips=3"}), ExitCode::config, "train.max_skips has no effect", "only with skip");
  EXPECT_ERROR(gpt2({"train.on_nonfinite=ignore"}), ExitCode::config, "one of stop, skip");
  EXPECT_ERROR(gpt2({"train.on_nonfinite=skip", "train.max_skips=0"}), ExitCode::config, "train.max_skips", "from 1");
}

TEST(SetVocabulary, FillsOrChecks) {
  RunConfig config = gpt2();
  set_vocabulary(config, 65);
  EXPECT_EQ(config.model.vocabulary, 65);
  config = gpt2({"model.vocabulary=128"});
  set_vocabulary(config, 65);
  EXPECT_EQ(config.model.vocabulary, 128);  // padded on purpose
  config = gpt2({"model.vocabulary=64"});
  EXPECT_ERROR(set_vocabulary(config, 65), ExitCode::config, "model.vocabulary = 64", "65 tokens", "x.tokens");
}

}  // namespace
}  // namespace cohort
