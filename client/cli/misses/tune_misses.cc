#include "client/cli/misses/tune_misses.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/data/upload.h"
#include "client/cli/misses/miss_list.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/watch.h"
#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

// What becomes one job.
struct MissGroup {
  std::string kernel_name, program, class_id, device;
  std::vector<v1::Problem> problems;  // the most asked first

  std::string Text() const { return TextOf(problems.size()); }
  // Of so many of them.
  std::string TextOf(size_t count) const {
    return fmt::format("{} of {} on {}", FormatCount(static_cast<int64_t>(count), "problem"), kernel_name, device);
  }
};

// In the order of their most asked problems.
std::vector<MissGroup> GroupsOf(const v1::ListMissesResponse& response) {
  std::vector<MissGroup> groups;
  for (const v1::Miss& miss : response.misses()) {
    auto group = std::find_if(groups.begin(), groups.end(), [&miss](const MissGroup& known) {
      return known.kernel_name == miss.kernel_name() && known.program == miss.program_digest() &&
             known.class_id == miss.device_class_id() && known.problems.size() < kProblemsMax;
    });
    if (group == groups.end()) {
      const std::string& name = miss.device_class_name();
      groups.push_back({miss.kernel_name(),
                        miss.program_digest(),
                        miss.device_class_id(),
                        name.empty() ? miss.device_class_id() : name,
                        {}});
      group = std::prev(groups.end());
    }
    group->problems.push_back(miss.problem());
  }
  return groups;
}

// Whether a job was refused for what it is about, and not for how it is to be tuned or for the state of the daemon.
bool IsAboutTheMisses(const absl::Status& refused) {
  const std::string reason(ReasonOf(refused));
  if (reason == "KERNEL_NOT_FOUND" || reason == "DEVICE_NOT_FOUND" || reason == "DEVICE_QUARANTINED") return true;
  // A problem without a valid config, or one that the kernel does not accept.
  for (const char* const how : {"JOB_INVALID", "BUDGET_INVALID", "POLICY_INVALID", "STRATEGY_INVALID"}) {
    if (reason == how) return false;
  }
  return absl::IsInvalidArgument(refused);
}

class MissTuner {
 public:
  // All outlive it.
  MissTuner(Session* session, Connection* connection, const v1::CreateJobRequest& settings,
            const std::vector<DescribedFile>& files)
      : session_(session), connection_(connection), settings_(settings), files_(files) {
    settings_.mutable_job()->clear_problems();
  }

  // kExitInterrupted: the user wants no more.
  absl::StatusOr<ExitCode> Tune(const MissGroup& group) {
    ASSIGN_OR_RETURN(const std::optional<v1::Job> job, Submit(group));
    if (!job.has_value()) return kExitOk;
    session_->Note(fmt::format("Job {} queued: {}", JobNumber(job->name()),
                               group.TextOf(static_cast<size_t>(job->studies_size()))));
    ASSIGN_OR_RETURN(const WatchOutcome outcome, WatchJob(session_, job->name()));
    if (outcome.detached) return kExitInterrupted;
    *jobs_.add_jobs() = outcome.job;
    return ExplainEnd(*session_, outcome.job);
  }

  void PrintSummary(OutputFormat format) const {
    if (format == OutputFormat::kJson) {
      session_->Print(ToJson(jobs_));
      return;
    }
    Table table({{"job", true}, {"kernel", false}, {"device", false}, {"problems", true}, {"tuned", true}});
    for (const v1::Job& job : jobs_.jobs()) {
      const auto tuned = std::count_if(job.studies().begin(), job.studies().end(),
                                       [](const v1::Study& study) { return study.has_best(); });
      table.AddRow({JobNumber(job.name()), job.kernel_name(),
                    job.studies_size() > 0 ? job.studies(0).device_class_name() : "",
                    std::to_string(job.studies_size()), std::to_string(tuned)});
    }
    session_->PrintTable(table, format);
  }

  int jobs() const { return jobs_.jobs_size(); }

 private:
  absl::StatusOr<v1::Job> Create(v1::CreateJobRequest request, const std::vector<v1::Problem>& problems) {
    for (const v1::Problem& problem : problems) *request.mutable_job()->add_problems() = problem;
    request.set_request_id(NewUuid(EntropySource::Real()));
    return CreateJob(session_, files_, request);
  }

  absl::Status Check(v1::CreateJobRequest request, const v1::Problem& problem) {
    *request.mutable_job()->add_problems() = problem;
    request.set_validate_only(true);
    return Connection::Call(connection_->tuning(), &v1::TuningService::StubInterface::CreateJob, request,
                            Connection::kSpaceTimeout)
        .status();
  }

  // The definition that was asked for; the newest of the name where it is not stored.
  absl::StatusOr<std::string> KernelOf(const MissGroup& group) {
    if (group.program.empty()) return group.kernel_name;
    if (!stored_.has_value()) {
      stored_.emplace();
      v1::ListKernelsRequest request;
      request.set_page_size(1000);
      do {
        ASSIGN_OR_RETURN(
            const v1::ListKernelsResponse page,
            Connection::Call(connection_->kernels(), &v1::KernelService::StubInterface::ListKernels, request));
        // The newest first: emplace keeps it.
        for (const v1::Kernel& kernel : page.kernels()) {
          stored_->emplace(std::pair(kernel.display_name(), kernel.program_digest()), kernel.name());
        }
        request.set_page_token(page.next_page_token());
      } while (!request.page_token().empty());
    }
    const auto found = stored_->find(std::pair(group.kernel_name, group.program));
    return found == stored_->end() ? group.kernel_name : found->second;
  }

  // None: nothing of the group can be tuned here.
  absl::StatusOr<std::optional<v1::Job>> Submit(const MissGroup& group) {
    v1::CreateJobRequest request = settings_;
    v1::Job* const job = request.mutable_job();
    if (!request.has_kernel_definition()) {
      ASSIGN_OR_RETURN(*job->mutable_kernel(), KernelOf(group));
    }
    if (job->device_selector().empty()) job->set_device_selector(group.class_id);
    absl::StatusOr<v1::Job> created = Create(request, group.problems);
    if (created.ok()) return std::make_optional(*std::move(created));
    if (!IsAboutTheMisses(created.status())) return created.status();
    // One problem of several is named so.
    if (MessageOf(created.status()).rfind("problems[", 0) != 0) {
      session_->Note(fmt::format("Skipped {}: {}", group.Text(), MessageOf(created.status())));
      return std::optional<v1::Job>();
    }
    ASSIGN_OR_RETURN(const std::vector<v1::Problem> accepted, Accepted(request, group));
    if (accepted.empty()) return std::optional<v1::Job>();
    ASSIGN_OR_RETURN(v1::Job rest, Create(request, accepted));
    return std::make_optional(std::move(rest));
  }

  absl::StatusOr<std::vector<v1::Problem>> Accepted(const v1::CreateJobRequest& request, const MissGroup& group) {
    std::vector<v1::Problem> accepted;
    for (const v1::Problem& problem : group.problems) {
      const absl::Status checked = Check(request, problem);
      if (!checked.ok() && !IsAboutTheMisses(checked)) return checked;
      if (checked.ok()) {
        accepted.push_back(problem);
      } else {
        session_->Note(fmt::format("Skipped {} of {}: {}", problem.key(), group.kernel_name, MessageOf(checked)));
      }
    }
    return accepted;
  }

  Session* const session_;
  Connection* const connection_;
  v1::CreateJobRequest settings_;
  const std::vector<DescribedFile>& files_;  // that the definition of `settings_` names
  v1::ListJobsResponse jobs_;                // that have ended
  // Names of the stored kernels by display name and program; read when they are first needed.
  std::optional<std::map<std::pair<std::string, std::string>, std::string>> stored_;
};

}  // namespace

void MissesOptions::AddTo(CLI::App* tune) {
  CLI::Option* const misses =
      tune->add_flag("--misses", is_chosen,
                     "Tune the problems that were looked up and never tuned (tunefarm misses), of one kernel or all.");
  for (const char* const other :
       {"--dim", "--pin", "--input-seed", "--input", "--expected", "--rows", "--missing-only", "--starting-configs"}) {
    misses->excludes(tune->get_option(other));
  }
  tune->add_option("--limit", limit, "With --misses: number of problems, most look-ups first (default: all).")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(misses);
}

absl::StatusOr<ExitCode> TuneMisses(Session* session, const MissesOptions& options,
                                    const v1::CreateJobRequest& settings, const std::vector<DescribedFile>& files) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  MissFilter filter;
  filter.kernel =
      settings.has_kernel_definition() ? settings.kernel_definition().display_name() : settings.job().kernel();
  ASSIGN_OR_RETURN(filter.device_class_id, ClassIdOf(connection, settings.job().device_selector()));
  ASSIGN_OR_RETURN(const v1::ListMissesResponse misses, FetchMisses(connection, filter, options.limit));
  const std::vector<MissGroup> groups = GroupsOf(misses);
  MissTuner tuner(session, connection, settings, files);
  ExitCode worst = kExitOk;
  size_t begun = 0;
  while (begun < groups.size() && worst != kExitInterrupted) {
    ASSIGN_OR_RETURN(const ExitCode code, tuner.Tune(groups[begun++]));
    // Failed is worse than without a valid config, and interrupted ends it all.
    const bool is_worse = code == kExitInterrupted || worst == kExitOk || code == kExitFailed;
    if (code != kExitOk && is_worse) worst = code;
  }
  if (groups.empty()) {
    const std::string& device = settings.job().device_selector();
    session->Note(fmt::format("Nothing to tune: no misses{}{} are listed.",
                              filter.kernel.empty() ? "" : " of " + filter.kernel,
                              device.empty() ? "" : " on " + device));
  }
  if (tuner.jobs() > 0 || format != OutputFormat::kTable) tuner.PrintSummary(format);
  for (; begun < groups.size(); ++begun) session->Note("Not begun: " + groups[begun].Text());
  return worst;
}

}  // namespace tunefarm::cli
