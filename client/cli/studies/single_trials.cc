#include "client/cli/studies/single_trials.h"

#include <fmt/core.h>

#include <algorithm>

#include "client/cli/options/measure_options.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/studies/progress.h"
#include "client/cli/studies/trial_pages.h"
#include "client/cli/studies/watch.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {

absl::StatusOr<TriedConfigs> FollowTrials(Session* session, const std::string& job_name) {
  ASSIGN_OR_RETURN(WatchOutcome outcome, WatchJob(session, job_name));
  TriedConfigs tried{.job = std::move(outcome.job), .trials = {}, .detached = outcome.detached};
  if (tried.detached) return tried;
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListTrialsRequest list;
  list.set_parent(job_name);
  list.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
  const size_t studies = static_cast<size_t>(std::max(1, tried.job.studies_size()));
  ASSIGN_OR_RETURN(const std::vector<v1::Trial> listed, FetchTrials(session, list, studies));
  if (listed.empty()) return NotFound("the config was never run: {}", tried.job.error());
  for (const v1::Trial& trial : listed) {
    v1::GetTrialRequest get;
    get.set_name(trial.name());
    ASSIGN_OR_RETURN(v1::GetTrialResponse response,
                     Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::GetTrial, get));
    tried.trials.push_back(std::move(*response.mutable_trial()));
  }
  return tried;
}

std::vector<std::string> WarningsOf(const v1::Trial& trial) {
  std::vector<std::string> warnings;
  if (trial.outcome() != v1::OUTCOME_OK) return warnings;
  if (!trial.message().empty()) warnings.push_back(trial.message());
  if (trial.verification().elements() == 0) {
    warnings.emplace_back("No output was compared with a reference, so that wrong results are not noticed.");
  }
  return warnings;
}

std::string TrialText(const v1::Trial& trial) {
  std::string phase = v1::Phase_Name(trial.phase());
  std::string text =
      fmt::format("config     {}\noutcome    {}\n", ConfigText(trial.config()), OutcomeText(trial.outcome()));
  for (const std::string& warning : WarningsOf(trial)) text += fmt::format("warning    {}\n", Visible(warning));
  if (!trial.message().empty() && trial.outcome() != v1::OUTCOME_OK) {
    const bool began = trial.phase() != v1::PHASE_UNSPECIFIED;
    text += fmt::format("why        {} (in {})\n", Visible(trial.message()), began ? phase.substr(6) : "preparation");
  }
  const v1::ResourceUse& use = trial.resources();
  if (use.binary_bytes() > 0) {
    text +=
        fmt::format("binary     {}, compiled in {:.0f} ms{}\n", FormatBytes(static_cast<uint64_t>(use.binary_bytes())),
                    trial.compile_ms(), trial.cached_binary() ? " (cached)" : "");
  }
  if (use.registers() > 0) {
    text +=
        fmt::format("resources  {} registers/thread, {} spilled, {} static + {} dynamic shared/block, {} blocks/SM\n",
                    use.registers(), FormatBytes(static_cast<uint64_t>(use.spill_bytes())),
                    FormatBytes(static_cast<uint64_t>(use.static_shared_bytes())),
                    FormatBytes(static_cast<uint64_t>(use.dynamic_shared_bytes())), use.blocks_per_sm());
  }
  const v1::Verification& check = trial.verification();
  if (check.elements() > 0) {
    text += fmt::format("check      {} of {} elements differ, largest error {:.3g} absolute, {:.3g} relative\n",
                        FormatCount(static_cast<int64_t>(check.mismatches())),
                        FormatCount(static_cast<int64_t>(check.elements())), check.max_absolute_error(),
                        check.max_relative_error());
    for (const v1::Mismatch& mismatch : check.first_mismatches()) {
      text += fmt::format("           {}[{}] is {:.9g}, expected {:.9g}\n", mismatch.buffer(), mismatch.index(),
                          mismatch.actual(), mismatch.expected());
    }
  }
  const v1::Measurement& m = trial.measurement();
  if (m.median_ns() > 0) {
    text += fmt::format("time       {} median, 95% interval {} to {}, {}, {}\n", FormatDuration(m.median_ns()),
                        FormatDuration(m.ci_low_ns()), FormatDuration(m.ci_high_ns()),
                        FormatCount(m.samples(), "sample"), StopText(m));
    if (const std::string conditions = ConditionsText(m); !conditions.empty())
      text += "measured   " + conditions + "\n";
  }
  if (!trial.log().empty()) text += "log\n" + trial.log() + (trial.log().back() == '\n' ? "" : "\n");
  return text;
}

}  // namespace tunefarm::cli
