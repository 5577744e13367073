#include "client/cli/export/triton_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "client/cli/options/problem_options.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/study_trials.h"
#include "client/cli/studies/trial_pages.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/device/device_class.h"
#include "server/interchange/exported_best.h"

namespace tunefarm::cli {
namespace {

using interchange::ExportedBest;
using interchange::TritonConfig;
using Tuning = v1::TuningService::StubInterface;

// One problem with what was measured of it.
struct Measured {
  std::string kernel, class_id, class_name;
  Config dims;
  std::vector<std::pair<Config, double>> configs;  // with medians
};

absl::StatusOr<std::vector<Measured>> MeasuredByJob(Session* session, const TritonSourceOptions& options) {
  ASSIGN_OR_RETURN(const std::string name, JobName(options.job));
  ASSIGN_OR_RETURN(const interchange::DimFilter dims, MakeDimFilter(options.filter.dims));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetJobRequest get;
  get.set_name(name);
  ASSIGN_OR_RETURN(const v1::GetJobResponse job, Connection::Call(connection->tuning(), &Tuning::GetJob, get));
  std::vector<Measured> all;
  for (const v1::Study& study : job.job().studies()) {
    Measured measured{job.job().kernel_name(), study.device_class_id(), study.device_class_name(), {}, {}};
    if (!options.filter.TakesDevice(measured.class_id, measured.class_name)) continue;
    v1::Config as_config;
    *as_config.mutable_values() = study.problem().dims();
    ASSIGN_OR_RETURN(measured.dims, ConfigOf(as_config));
    if (!dims.Takes(measured.dims)) continue;
    v1::ListTrialsRequest list;
    list.set_parent(study.name());
    list.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
    list.add_outcomes(v1::OUTCOME_OK);
    RETURN_IF_ERROR(ForEachTrial(session, list, [&](v1::Trial* trial) -> absl::StatusOr<bool> {
      if (trial->outcome() != v1::OUTCOME_OK) return true;
      ASSIGN_OR_RETURN(Config config, ConfigOf(trial->config()));
      measured.configs.emplace_back(std::move(config), trial->measurement().median_ns());
      return measured.configs.size() < kStudyTrialsMax;
    }));
    if (!measured.configs.empty()) all.push_back(std::move(measured));
  }
  if (all.empty()) return NotFound("job {} has measured no such config", JobNumber(name));
  return all;
}

absl::StatusOr<std::vector<Measured>> MeasuredBests(Session* session, const TritonSourceOptions& options) {
  if (options.filter.kernel.empty()) return InvalidArgument("name the kernel with --kernel, or a job with --job");
  ASSIGN_OR_RETURN(std::vector<ExportedBest> bests, FetchBests(session, options.filter));
  LeaveOutInputs(&bests);
  std::vector<Measured> all;
  for (const ExportedBest& exported : bests) {
    if (!exported.is_plain()) continue;
    const v1::BestConfig& best = exported.best;
    all.push_back({best.kernel_name(),
                   best.device_class_id(),
                   best.device_class_name(),
                   exported.dims,
                   {{exported.config, best.measurement().median_ns()}}});
  }
  if (all.empty()) return NotFound("only bests of pinned problems, or with input seeds of their own, are known");
  return all;
}

// Shared memory of a block by class id; 0 for classes that nobody here knows.
int64_t SharedBytesOf(Connection* connection, const Measured& measured) {
  v1::ListDevicesRequest request;
  request.set_page_size(1000);
  const auto devices = Connection::Call(connection->devices(), &v1::DeviceService::StubInterface::ListDevices, request);
  if (devices.ok()) {
    for (const v1::Device& device : devices->devices()) {
      if (device.device_class().id() == measured.class_id) return device.device_class().shared_bytes_per_block_optin();
    }
  }
  for (const KnownClass& known : KnownClasses()) {
    if (known.device_class.display_name == measured.class_name) return known.device_class.shared_bytes_per_block_optin;
  }
  return 0;
}

int64_t ElementBytes(const Config& dims) {
  const Value* const dtype = dims.Find("dtype");
  const std::string text = dtype == nullptr ? "" : dtype->ToText();
  if (text == "f32" || text == "float32") return 4;
  return text.rfind("fp8", 0) == 0 || text.rfind("int8", 0) == 0 ? 1 : 2;
}

absl::StatusOr<std::map<std::string, std::string>> Renamed(const std::vector<std::string>& parameters) {
  std::map<std::string, std::string> renamed;
  for (const std::string& text : parameters) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return InvalidArgument("--parameter {}: write NAME=OWN_NAME", text);
    renamed[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return renamed;
}

absl::StatusOr<std::string> MDimOf(const Measured& measured, const std::string& asked) {
  for (const std::string& name : asked.empty() ? std::vector<std::string>{"tokens", "M"} : std::vector{asked}) {
    const Value* const value = measured.dims.Find(name);
    if (value != nullptr && value->is_int() && value->int_value() > 0) return name;
  }
  return InvalidArgument("'{}' has no {}; name the dim that counts tokens with --m-dim", measured.kernel,
                         asked.empty() ? "dim tokens or M" : "number of tokens in dim " + asked);
}

// The fastest config of a problem that Triton can take. Absent, with `why_not` of the fastest, where it can take none.
absl::StatusOr<std::optional<interchange::TritonResult>> ResultOf(const Measured& measured,
                                                                  const std::map<std::string, std::string>& renamed,
                                                                  int64_t shared_bytes, std::string* why_not) {
  std::optional<interchange::TritonResult> best;
  double fastest_ns = 0;
  for (const auto& [config, median_ns] : measured.configs) {
    if (!(median_ns > 0)) continue;
    ASSIGN_OR_RETURN(const TritonConfig triton, interchange::TritonConfigOf(config, renamed));
    const std::string why = interchange::WhyNotTriton(triton, ElementBytes(measured.dims), shared_bytes);
    if (fastest_ns <= 0 || median_ns < fastest_ns) {
      fastest_ns = median_ns;
      *why_not = why;
    }
    if (!why.empty() || (best.has_value() && best->median_ns <= median_ns)) continue;
    best = interchange::TritonResult{0, triton, median_ns};
  }
  return best;
}

}  // namespace

void TritonSourceOptions::AddTo(CLI::App* command) {
  filter.AddTo(command);
  command
      ->add_option(
          "--job", job,
          "Choose among all configs that this job has measured, not only the best: more of them are valid for Triton.")
      ->type_name("JOB");
  command->add_option("--m-dim", m_dim, "The dim that counts tokens (default: tokens, else M).")->type_name("NAME");
  AddListOption(command, "--parameter", &parameters,
                "The kernel's name for a parameter of Triton kernels: BLOCK_SIZE_M=BLOCK_M. May be repeated.");
  command->add_flag("--same-kernel", same_kernel,
                    "The measured kernel is the one that reads the file, so the file is not marked as a seed.");
}

absl::StatusOr<std::vector<TritonProblems>> FetchTritonProblems(Session* session, const TritonSourceOptions& options) {
  const bool of_job = !options.job.empty();
  ASSIGN_OR_RETURN(std::vector<Measured> all,
                   of_job ? MeasuredByJob(session, options) : MeasuredBests(session, options));
  ASSIGN_OR_RETURN(const auto renamed, Renamed(options.parameters));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  std::map<std::string, int64_t> shared_bytes;
  std::map<std::pair<std::string, std::string>, TritonProblems> groups;  // by class and the dims without M
  int refused = 0;
  std::string example;
  for (Measured& measured : all) {
    if (shared_bytes.count(measured.class_id) == 0) {
      shared_bytes[measured.class_id] = SharedBytesOf(connection, measured);
    }
    ASSIGN_OR_RETURN(const std::string m_dim, MDimOf(measured, options.m_dim));
    std::string why_not;
    ASSIGN_OR_RETURN(auto result, ResultOf(measured, renamed, shared_bytes[measured.class_id], &why_not));
    const int64_t m = measured.dims.Find(m_dim)->int_value();
    if (!result.has_value()) {
      ++refused;
      if (example.empty()) example = fmt::format("{}={}: {}", m_dim, m, why_not);
      continue;
    }
    result->m = m;
    Config dims;
    for (const auto& [name, value] : measured.dims) {
      if (name != m_dim) dims.Set(name, value);
    }
    TritonProblems& group = groups[{measured.class_name + "\n" + measured.class_id, dims.ToText()}];
    group.kernel = measured.kernel;
    group.device_class_name = measured.class_name;
    group.dims = std::move(dims);
    group.results.push_back(*std::move(result));
  }
  const std::string hint = of_job ? "" : "; --job chooses among all configs of a job";
  if (groups.empty()) return NotFound("there is no config that Triton takes ({}){}", example, hint);
  if (refused > 0) {
    session->Note(fmt::format("{} of {} {} no config that Triton takes ({}){}", refused,
                              FormatCount(static_cast<int64_t>(all.size()), "problem"), refused == 1 ? "has" : "have",
                              example, hint));
  }
  std::vector<TritonProblems> problems;
  for (auto& [key, group] : groups) problems.push_back(std::move(group));
  return problems;
}

absl::StatusOr<int64_t> IntegerDim(const TritonProblems& problems, const std::string& name) {
  const Value* const value = problems.dims.Find(name);
  if (value != nullptr && value->is_int() && value->int_value() > 0) return value->int_value();
  return InvalidArgument("'{}' has no number in a dim {}, which the file's name needs", problems.kernel, name);
}

absl::Status NeedsChoice(const TritonProblems& a, const TritonProblems& b, std::string_view file) {
  std::string differ;
  for (const auto& [name, value] : a.dims) {
    const Value* const other = b.dims.Find(name);
    if (other != nullptr && *other == value) continue;
    differ += fmt::format("{}{}={} or {}", differ.empty() ? "" : ", ", name, value.ToText(),
                          other == nullptr ? "none" : other->ToText());
  }
  if (differ.empty()) return InvalidArgument("bests of two device classes belong into {}: choose with --device", file);
  return InvalidArgument("problems that differ in more than the number of tokens belong into {}: choose with --dim: {}",
                         file, differ);
}

std::string SeedNoteOf(const Session& session, const TritonSourceOptions& options, const TritonProblems& problems,
                       const interchange::TritonTable& table, std::string_view file) {
  const auto filled =
      std::count_if(table.keys.begin(), table.keys.end(), [](const auto& key) { return key.is_filled; });
  if (filled > 0) {
    session.Note(fmt::format("{}: {} of {} keys were not measured and have the config of the nearest M that was", file,
                             filled, table.keys.size()));
  }
  if (options.same_kernel) return "";
  session.Note(
      fmt::format("{}: a seed, since the times are of {} and not of the kernel that reads it; measure before "
                  "relying on it",
                  file, problems.kernel));
  return interchange::SeedNote(table, problems.kernel, problems.device_class_name, problems.dims.ToText());
}

}  // namespace tunefarm::cli
