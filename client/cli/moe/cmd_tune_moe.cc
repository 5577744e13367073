// tune-moe: the tables of configs that vLLM and SGLang read for their fused mixture-of-experts kernel, from times of a
// kernel with its interface: kernels/fused_moe, or the one of the user's own installation.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "client/cli/commands.h"
#include "client/cli/data/upload.h"
#include "client/cli/help_format.h"
#include "client/cli/misses/missing_problems.h"
#include "client/cli/moe/kernel_file.h"
#include "client/cli/moe/moe_tables.h"
#include "client/cli/moe/tune_moe_options.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/study_trials.h"
#include "client/cli/studies/trial_pages.h"
#include "client/cli/studies/watch.h"
#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/fused_moe_json.h"

namespace tunefarm::cli {
namespace {

using interchange::FusedMoeLayer;
using interchange::FusedMoeReader;
using interchange::FusedMoeRow;
using interchange::TritonConfig;
using Lookup = v1::LookupService::StubInterface;

// Experts of all ranks together, as in kernels/fused_moe.
constexpr int64_t kExpertsMax = 1024;

// X.Y.Z. SGLang reads numbers from the names of all triton_* folders, and does not start where one has another name.
bool IsRelease(std::string_view text) {
  int numbers = 0;
  size_t digits = 0;
  for (const char c : text) {
    if (c == '.' && digits > 0 && numbers < 2) {
      ++numbers;
      digits = 0;
    } else if (c >= '0' && c <= '9' && digits < 4) {
      ++digits;
    } else {
      return false;
    }
  }
  return numbers == 2 && digits > 0;
}

absl::StatusOr<FusedMoeLayer> LayerOf(const TuneMoeOptions& options) {
  FusedMoeLayer layer;
  layer.reader = options.reader == "vllm" ? FusedMoeReader::kVllm : FusedMoeReader::kSglang;
  layer.experts = options.experts;
  layer.intermediate = options.intermediate;
  layer.is_fp8 = options.dtype == "fp8_w8a8";
  if (layer.is_fp8 != !options.block_shape.empty() || (layer.is_fp8 && options.block_shape != "128,128")) {
    return InvalidArgument("--dtype {} --block-shape {}: fp8_w8a8 goes with 128,128, and bf16 without", options.dtype,
                           options.block_shape.empty() ? "(none)" : options.block_shape);
  }
  if (options.all_experts() > kExpertsMax) {
    return InvalidArgument("--experts {} --ranks {}: all ranks have at most {} experts", options.experts, options.ranks,
                           kExpertsMax);
  }
  if (options.topk > options.all_experts()) {
    return InvalidArgument("--topk {}: a token has at most all {} experts", options.topk, options.all_experts());
  }
  if (!options.triton.empty() && !IsRelease(options.triton)) {
    return InvalidArgument("--triton {}: give three numbers, as in 3.6.0", options.triton);
  }
  return layer;
}

// With fewer chosen experts than a token has, or with numbers that are no likelihoods, other routings than those that
// are meant would be tuned for.
absl::Status CheckHistogram(const TuneMoeOptions& options, const std::vector<DescribedFile>& files) {
  for (const DescribedFile& described : files) {
    const OpenDataFile& file = described.file;
    if (file.name() != options.histogram) continue;
    const int64_t needed = options.all_experts() * int64_t{sizeof(float)};
    if (file.bytes() != needed) {
      return InvalidArgument("--histogram {}: it has {} bytes, and {} experts take {}: one f32 for each", file.name(),
                             file.bytes(), options.all_experts(), needed);
    }
    ASSIGN_OR_RETURN(const std::string bytes, file.Part(0));
    std::vector<float> counts(static_cast<size_t>(options.all_experts()));
    std::memcpy(counts.data(), bytes.data(), std::min(bytes.size(), static_cast<size_t>(needed)));
    int64_t chosen = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (!std::isfinite(counts[i]) || counts[i] < 0) {
        return InvalidArgument("--histogram {}: the count of expert {} is {}; give numbers from 0 on", file.name(), i,
                               counts[i]);
      }
      chosen += counts[i] > 0 ? 1 : 0;
    }
    if (chosen < options.topk) {
      return InvalidArgument("--histogram {}: {} of {} experts have a count above 0, and each token has {}",
                             file.name(), chosen, options.all_experts(), options.topk);
    }
  }
  return absl::OkStatus();
}

v1::Config ProtoOf(const TritonConfig& config) {
  v1::Config proto;
  const auto set = [&proto](const char* name, int64_t value) { (*proto.mutable_values())[name].set_int_value(value); };
  set("BLOCK_SIZE_M", config.block_m);
  set("BLOCK_SIZE_N", config.block_n);
  set("BLOCK_SIZE_K", config.block_k);
  set("GROUP_SIZE_M", config.group_m);
  set("num_warps", config.num_warps);
  set("num_stages", config.num_stages);
  return proto;
}

absl::StatusOr<TritonConfig> TritonOf(const v1::Config& proto) {
  ASSIGN_OR_RETURN(const Config config, ConfigOf(proto));
  return interchange::TritonConfigOf(config, {});
}

int64_t TokensOf(const v1::Problem& problem) {
  const auto found = problem.dims().find("M");
  return found == problem.dims().end() ? 0 : found->second.int_value();
}

// Makes the rows of tables: the winner of a search for each batch size, and its time beside that of the config that the
// reader takes without the table. What an earlier command has searched is not searched again.
class MoeTuner {
 public:
  // `kernel` is stored; `files` are the data that it names.
  MoeTuner(Session* session, Connection* connection, const TuneMoeOptions& options, std::string kernel,
           const std::vector<DescribedFile>& files, v1::MeasurementPolicy policy)
      : session_(session),
        connection_(connection),
        options_(options),
        selector_(options.device),
        kernel_(std::move(kernel)),
        files_(files),
        policy_(std::move(policy)) {}

  // What the driver calls the device that is tuned for. Where the user named none, it is the class of the one that is
  // ready now, also when another one is the first later.
  absl::StatusOr<std::string> FindDevice(const std::string& product, int64_t tokens) {
    v1::LookupConfigRequest request;
    request.set_kernel(kernel_);
    request.set_device_selector(selector_);
    request.set_worst_match(v1::MATCH_EXACT);
    request.set_with_device_class(true);
    *request.mutable_problem() = ProblemOf(product, tokens);
    ASSIGN_OR_RETURN(const v1::LookupConfigResponse response,
                     Connection::Call(connection_->lookup(), &Lookup::LookupConfig, request));
    if (selector_.empty()) selector_ = response.device_class().id();
    return response.device_class().display_name();
  }

  // Fills in all but `m` and `untuned` of the rows. With `keeps_block_m` only configs with the BLOCK_SIZE_M of
  // `untuned` are searched. kExitInterrupted where the user wants no more.
  absl::StatusOr<ExitCode> Measure(const std::string& product, bool keeps_block_m, std::vector<FusedMoeRow>* rows) {
    std::vector<v1::Problem> problems;
    for (const FusedMoeRow& row : *rows) {
      v1::Problem& problem = problems.emplace_back(ProblemOf(product, row.m));
      if (keeps_block_m) (*problem.mutable_pinned())["BLOCK_SIZE_M"].set_int_value(row.untuned.block_m);
    }
    ASSIGN_OR_RETURN(const std::vector<v1::Problem> missing,
                     MissingProblems(connection_, kernel_, selector_, problems));
    if (const size_t known = problems.size() - missing.size(); known > 0) {
      session_->Note(fmt::format("{} of {} batch sizes {} searched again", known, problems.size(),
                                 known == 1 ? "has a best already and is not" : "have a best already and are not"));
    }
    ASSIGN_OR_RETURN(const ExitCode searched, Search(missing, *rows));
    if (searched != kExitOk) return searched;
    for (size_t i = 0; i < problems.size(); ++i) RETURN_IF_ERROR(TakeBest(problems[i], &(*rows)[i]));
    return Compare(product, rows);
  }

  bool has_best() const { return has_best_; }
  const MoeCompiles& compiles() const { return compiles_; }

 private:
  v1::Problem ProblemOf(const std::string& product, int64_t tokens) const {
    v1::Problem problem;
    auto& dims = *problem.mutable_dims();
    dims["M"].set_int_value(tokens);
    dims["E"].set_int_value(options_.experts);
    dims["intermediate"].set_int_value(options_.intermediate);
    dims["hidden"].set_int_value(options_.hidden);
    dims["topk"].set_int_value(options_.topk);
    dims["ranks"].set_int_value(options_.ranks);
    dims["product"].set_string_value(product);
    dims["operands"].set_string_value(options_.dtype == "bf16" ? "bf16" : "u8");
    return problem;
  }

  v1::CreateJobRequest RequestFor(int64_t max_trials) const {
    v1::CreateJobRequest request;
    v1::Job* const job = request.mutable_job();
    job->set_kernel(kernel_);
    job->set_device_selector(selector_);
    job->set_label("tune-moe for " + options_.reader);
    *job->mutable_policy() = policy_;
    job->mutable_budget()->set_max_trials(max_trials);
    return request;
  }

  static void AddStart(const TritonConfig& config, v1::Job* job) {
    v1::StartingConfig* const start = job->add_starting_configs();
    start->set_problem_index(job->problems_size() - 1);
    *start->mutable_config() = ProtoOf(config);
  }

  absl::StatusOr<ExitCode> Run(v1::CreateJobRequest request, const std::string& what, v1::Job* ended) {
    request.set_request_id(NewUuid(EntropySource::Real()));
    ASSIGN_OR_RETURN(const v1::Job job, CreateJob(session_, files_, request));
    session_->Note(fmt::format("Job {} queued: {}", JobNumber(job.name()), what));
    if (job.studies_size() != request.job().problems_size()) {
      return InvalidArgument("--device {} means several device classes; name one", options_.device);
    }
    ASSIGN_OR_RETURN(const WatchOutcome outcome, WatchJob(session_, job.name()));
    if (outcome.detached) {
      // Two jobs would search the same.
      session_->Note(
          fmt::format("Repeat the command when job {} has ended: it goes on from there.", JobNumber(job.name())));
      return kExitInterrupted;
    }
    *ended = outcome.job;
    const ExitCode code = ExplainEnd(*session_, outcome.job);
    // A batch size without a valid config keeps what its reader takes anyway.
    return code == kExitNoValidConfig ? kExitOk : code;
  }

  absl::StatusOr<ExitCode> Search(const std::vector<v1::Problem>& missing, const std::vector<FusedMoeRow>& rows) {
    if (missing.empty()) return kExitOk;
    v1::CreateJobRequest request = RequestFor(options_.max_trials);
    request.mutable_job()->set_promote_given(true);
    for (const v1::Problem& problem : missing) {
      *request.mutable_job()->add_problems() = problem;
      const auto row =
          std::find_if(rows.begin(), rows.end(), [&](const FusedMoeRow& one) { return one.m == TokensOf(problem); });
      if (row != rows.end()) AddStart(row->untuned, request.mutable_job());
    }
    v1::Job ended;
    ASSIGN_OR_RETURN(const ExitCode code, Run(std::move(request),
                                              fmt::format("{} of {} batch sizes {} searched", missing.size(),
                                                          rows.size(), missing.size() == 1 ? "is" : "are"),
                                              &ended));
    if (code != kExitOk) return code;
    for (const v1::Study& study : ended.studies()) RETURN_IF_ERROR(CountCompiles(study));
    session_->Note(fmt::format("{} of {} compiled {} config; the others took a binary from the cache",
                               compiles_.compiled, FormatCount(compiles_.trials, "trial"),
                               compiles_.compiled == 1 ? "its" : "their"));
    return kExitOk;
  }

  absl::Status CountCompiles(const v1::Study& study) {
    v1::ListTrialsRequest list;
    list.set_parent(study.name());
    list.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
    return ForEachTrial(session_, list, [this](v1::Trial* trial) -> absl::StatusOr<bool> {
      // Reused and excluded trials need no binary.
      if (trial->reused() || trial->outcome() == v1::OUTCOME_PRUNED || trial->outcome() == v1::OUTCOME_POISONED)
        return true;
      ++compiles_.trials;
      if (!trial->cached_binary()) ++compiles_.compiled;
      return true;
    });
  }

  absl::Status TakeBest(const v1::Problem& problem, FusedMoeRow* row) {
    v1::LookupConfigRequest request;
    request.set_kernel(kernel_);
    request.set_device_selector(selector_);
    request.set_worst_match(v1::MATCH_EXACT);
    *request.mutable_problem() = problem;
    ASSIGN_OR_RETURN(const v1::LookupConfigResponse response,
                     Connection::Call(connection_->lookup(), &Lookup::LookupConfig, request));
    row->tuned = row->untuned;
    if (response.match() != v1::MATCH_EXACT) {
      session_->Note(fmt::format("No config was valid for {}.", FormatCount(row->m, "token")));
      return absl::OkStatus();
    }
    has_best_ = true;
    ASSIGN_OR_RETURN(row->tuned, TritonOf(response.best().config()));
    return absl::OkStatus();
  }

  // Both configs of each row in one final, on routings that no search has seen.
  absl::StatusOr<ExitCode> Compare(const std::string& product, std::vector<FusedMoeRow>* rows) {
    v1::CreateJobRequest request = RequestFor(2);
    v1::Job* const job = request.mutable_job();
    job->set_no_promotion(true);
    job->set_no_memory(true);
    job->mutable_policy()->set_no_early_stop(true);
    for (const FusedMoeRow& row : *rows) {
      if (row.tuned == row.untuned) continue;
      v1::Problem problem = ProblemOf(product, row.m);
      for (const uint64_t seed : {2, 3}) problem.add_input_seeds(seed);
      *job->add_problems() = std::move(problem);
      AddStart(row.tuned, job);
      AddStart(row.untuned, job);
    }
    if (job->problems_size() == 0) return kExitOk;
    v1::Job ended;
    ASSIGN_OR_RETURN(const ExitCode code,
                     Run(std::move(request), "winners beside the configs that they replace", &ended));
    if (code != kExitOk) return code;
    for (const v1::Study& study : ended.studies()) {
      for (FusedMoeRow& row : *rows) {
        if (row.m == TokensOf(study.problem())) RETURN_IF_ERROR(TakeTimes(study, &row));
      }
    }
    return kExitOk;
  }

  // Finals come after the search and count instead of it. A noisy time counts in a final alone, where the other config
  // was measured between its samples.
  absl::Status TakeTimes(const v1::Study& study, FusedMoeRow* row) {
    v1::ListTrialsRequest list;
    list.set_parent(study.name());
    int finalists = 0;
    RETURN_IF_ERROR(ForEachTrial(session_, list, [row, &finalists](v1::Trial* trial) -> absl::StatusOr<bool> {
      const bool is_judged = trial->outcome() != v1::OUTCOME_UNSPECIFIED && trial->outcome() != v1::OUTCOME_LOST;
      if (trial->purpose() == v1::TRIAL_PURPOSE_BASELINE || !is_judged) return true;
      ASSIGN_OR_RETURN(const TritonConfig config, TritonOf(trial->config()));
      const bool is_noisy = trial->outcome() == v1::OUTCOME_NOISY;
      const bool has_time =
          trial->outcome() == v1::OUTCOME_OK || (is_noisy && trial->purpose() == v1::TRIAL_PURPOSE_FINALIST);
      const double ns = has_time ? trial->measurement().median_ns() : 0;
      if (config == row->tuned) row->tuned_ns = ns;
      if (config == row->untuned) {
        row->untuned_ns = ns;
        row->untuned_fails = !has_time && !is_noisy;
      }
      finalists += has_time && trial->purpose() == v1::TRIAL_PURPOSE_FINALIST ? 1 : 0;
      return true;
    }));
    // Times that were not measured in turns tell nothing about the smaller one.
    if (row->tuned_ns > 0 && row->untuned_ns > 0 && finalists < 2) row->tuned_ns = row->untuned_ns = 0;
    return absl::OkStatus();
  }

  Session* const session_;
  Connection* const connection_;
  const TuneMoeOptions& options_;
  std::string selector_;
  const std::string kernel_;
  const std::vector<DescribedFile>& files_;
  const v1::MeasurementPolicy policy_;
  bool has_best_ = false;
  MoeCompiles compiles_;  // of this command's searches
};

std::vector<FusedMoeRow> RowsOf(const TuneMoeOptions& options, const FusedMoeLayer& layer) {
  std::set<int64_t> tokens(options.batch_sizes.begin(), options.batch_sizes.end());
  if (tokens.empty()) tokens.insert(interchange::kTokenLadder.begin(), interchange::kTokenLadder.end());
  std::vector<FusedMoeRow> rows;
  for (const int64_t m : tokens) {
    FusedMoeRow& row = rows.emplace_back();
    row.m = m;
    row.untuned = interchange::FusedMoeDefault(layer.reader, layer.is_fp8, m, layer.experts);
  }
  return rows;
}

absl::StatusOr<ExitCode> TuneMoe(Session* session, const TuneMoeOptions& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(FusedMoeLayer layer, LayerOf(options));
  ASSIGN_OR_RETURN(const v1::MeasurementPolicy policy, MakePolicy(options.measure));
  ASSIGN_OR_RETURN(KernelArgument kernel, ResolveKernelWithoutData("fused_moe", session->environment));
  if (!kernel.definition.has_value()) return NotFound("the built-in kernel fused_moe is not installed here");
  if (!options.kernel_file.empty()) {
    RETURN_IF_ERROR(UseKernelFile(options.kernel_file, &*kernel.definition));
  }
  DataOptions data;
  if (!options.histogram.empty()) data.inputs.push_back("expert_weights=" + options.histogram);
  ASSIGN_OR_RETURN(const std::vector<DescribedFile> data_files, DescribeData(session, data, &kernel));
  RETURN_IF_ERROR(CheckHistogram(options, data_files));
  RETURN_IF_ERROR(UploadDataFiles(session, data_files));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::CreateKernelRequest create;
  *create.mutable_kernel() = *kernel.definition;
  ASSIGN_OR_RETURN(const v1::CreateKernelResponse stored, CallWithData(session, data_files, [&] {
                     return Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::CreateKernel,
                                             create);
                   }));
  MoeTuner tuner(session, connection, options, stored.kernel().name(), data_files, policy);
  std::vector<ExportedFile> files;
  std::vector<FusedMoeRow> rows = RowsOf(options, layer);
  const bool is_vllm = layer.reader == FusedMoeReader::kVllm;
  const std::string product = is_vllm ? "both" : "up";
  ASSIGN_OR_RETURN(layer.device, tuner.FindDevice(product, rows.front().m));
  RETURN_IF_ERROR(CheckMoeTablesAreNew(options, layer));
  ASSIGN_OR_RETURN(const ExitCode first, tuner.Measure(product, false, &rows));
  if (first != kExitOk) return first;
  if (!tuner.has_best()) return NotFound("no config was valid, so that there is no table");
  AddMoeTable(options, layer, stored.kernel(), tuner.compiles(), rows, &files);
  if (!is_vllm) {
    // Both products of a layer share one sorted order, so that the second has the first one's BLOCK_SIZE_M.
    for (FusedMoeRow& row : rows) row = {.m = row.m, .tuned = {}, .untuned = row.kept()};
    ASSIGN_OR_RETURN(const ExitCode second, tuner.Measure("down", true, &rows));
    if (second != kExitOk) return second;
    layer.is_down = true;
    AddMoeTable(options, layer, stored.kernel(), tuner.compiles(), rows, &files);
  }
  RETURN_IF_ERROR(options.target.Write(*session, files));
  return kExitOk;
}

}  // namespace

void AddTuneMoe(CLI::App* app, Session* session) {
  auto options = std::make_shared<TuneMoeOptions>();
  options->target.directory = ".";
  CLI::App* command = app->add_subcommand(
      "tune-moe", "Tune a fused mixture-of-experts layer, and write the config files of vLLM or SGLang.");
  SetExample(command,
             "tunefarm tune-moe --experts 128 --intermediate 768 --hidden 2048 --topk 8 --for vllm\n"
             "tunefarm tune-moe --experts 64 --intermediate 1408 --hidden 2048 --topk 6 --for sglang --dir out");
  const auto add_size = [command](const char* flag, int64_t* value, int64_t most, const char* help) {
    command->add_option(flag, *value, help)->type_name("N")->required()->check(CLI::Range(int64_t{1}, most));
  };
  add_size("--experts", &options->experts, 1024, "Experts of one process.");
  add_size("--intermediate", &options->intermediate, 32'768, "Width between the two products, of one process.");
  add_size("--hidden", &options->hidden, 16'384, "Width of tokens.");
  add_size("--topk", &options->topk, 64, "Experts of each token.");
  command
      ->add_option(
          "--ranks", options->ranks,
          "Processes that share the experts of a layer (expert parallelism): tokens are routed to those of all "
          "(default 1).")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kExpertsMax));
  command->add_option("--for", options->reader, "Whose files to write: vllm or sglang.")
      ->type_name("READER")
      ->required()
      ->check(CLI::IsMember({"vllm", "sglang"}));
  command
      ->add_option("--kernel-file", options->kernel_file,
                   "Tune fused_moe_kernel of this file of an installed vLLM (fused_moe.py) or SGLang "
                   "(fused_moe_triton_kernels.py) instead of the built-in kernel; it is compiled for each case that "
                   "Triton specialises on.")
      ->type_name("FILE");
  command->add_option("--dtype", options->dtype, "bf16 (default) or fp8_w8a8.")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"bf16", "fp8_w8a8"}));
  command->add_option("--block-shape", options->block_shape, "Blocks of scales of fp8_w8a8: 128,128.")
      ->type_name("N,K");
  command
      ->add_option("--histogram", options->histogram,
                   "How often each expert is chosen: .npy or raw elements, one f32 for each (default: all alike).")
      ->type_name("FILE");
  command
      ->add_option("--batch-size", options->batch_sizes,
                   "Tokens to tune for; may be repeated (default: the 18 sizes of the readers' own tuners).")
      ->type_name("N")
      ->allow_extra_args(false)
      ->check(CLI::Range(int64_t{1}, int64_t{131'072}));
  command
      ->add_option("--max-trials", options->max_trials,
                   "Configs tried for each batch size (default 300; 2000 are all of them).")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{10'000}));
  command->add_option("--policy", options->measure.policy, "How to measure: fast, default or rigorous.")
      ->type_name("POLICY");
  command->add_option("--device", options->device, "Device UUID, class or name (default: the first ready one).")
      ->type_name("DEVICE");
  command
      ->add_option(
          "--triton", options->triton,
          "Version of Triton of the reader: names SGLang's folder configs/triton_X_Y_Z (default 3.6.0), and is "
          "noted in vLLM's file.")
      ->type_name("X.Y.Z");
  options->target.AddDirectory(command);
  command
      ->add_option("--python", session->connect.python,
                   "The interpreter with Triton, of a private daemon that this command starts (default: python3 of "
                   "PATH).")
      ->type_name("FILE");
  command->callback([=] { session->command = [=] { return TuneMoe(session, *options); }; });
}

}  // namespace tunefarm::cli
