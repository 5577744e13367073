#include "client/cli/studies/watch.h"

#include <fmt/core.h>

#include "client/cli/interruption.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/reconnection.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/progress.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"

namespace tunefarm::cli {
namespace {

constexpr Duration kSecondWithin = std::chrono::seconds(3);
constexpr Duration kCancelTimeout = std::chrono::seconds(10);

absl::StatusOr<v1::Job> GetJob(Connection* connection, const std::string& name) {
  v1::GetJobRequest request;
  request.set_name(name);
  ASSIGN_OR_RETURN(v1::GetJobResponse response,
                   Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::GetJob, request));
  return response.job();
}

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_CANCELLED;
}

// What a first Ctrl-C and a second one do.
absl::Status Detach(const Session& session, Connection* connection, const std::string& job_name,
                    const Interruption& interruption) {
  const std::string number = JobNumber(job_name);
  session.Note(fmt::format(
      "Detached; job {0} continues. Follow: tunefarm jobs watch {0}   Stop: tunefarm jobs cancel {0}", number));
  // Only where somebody reads that a second one makes a difference.
  const bool waits = session.err_is_terminal && !session.quiet;
  if (waits) {
    session.Note(fmt::format("Ctrl-C again within {} s cancels it.", kSecondWithin / std::chrono::seconds(1)));
  }
  if (!interruption.HappensAgain(waits ? kSecondWithin : Duration::zero())) return absl::OkStatus();
  v1::CancelJobRequest request;
  request.set_name(job_name);
  const auto cancelled =
      Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::CancelJob, request, kCancelTimeout);
  RETURN_IF_ERROR(cancelled.status());
  session.Note(fmt::format("Job {0} is cancelled; what it found stays: tunefarm results {0}", number));
  return absl::OkStatus();
}

// The best so far of a job that was cancelled: no final has confirmed it, so that it is not in the catalog.
void NoteBestSoFar(const Session& session, const v1::Job& job) {
  for (const v1::Study& study : job.studies()) {
    const v1::Trial& fastest = study.incumbent();
    if (study.has_best() || fastest.measurement().median_ns() <= 0) continue;
    session.Note(fmt::format("Best so far of {}: {}, {} (no final has confirmed it: tunefarm best does not know it)",
                             Visible(study.problem().key()), FormatDuration(fastest.measurement().median_ns()),
                             ConfigText(fastest.config())));
  }
  session.Note("All it found: tunefarm results " + JobNumber(job.name()));
}

}  // namespace

absl::StatusOr<WatchOutcome> WatchJob(Session* session, const std::string& job_name) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  Progress progress(session);
  Interruption interruption;
  WatchOutcome outcome;
  int64_t last_event = 0;
  Reconnection reconnection(Clock::Real());
  while (true) {
    grpc::ClientContext context;
    interruption.Guard(&context);
    v1::WatchJobRequest request;
    request.set_name(job_name);
    request.set_after_event_id(last_event);
    const auto reader = connection->tuning()->WatchJob(&context, request);
    v1::WatchJobResponse response;
    bool has_answered = false;  // a stream begins with a snapshot, or with what was missed
    while (reader->Read(&response)) {
      has_answered = true;
      progress.OnEvent(response.event());
      last_event = response.event().event_id();
    }
    const absl::Status status = FromGrpc(reader->Finish());
    interruption.Guard(nullptr);
    if (interruption.happened()) {
      progress.Finish();
      RETURN_IF_ERROR(Detach(*session, connection, job_name, interruption));
      outcome.detached = true;
      outcome.job.set_name(job_name);
      return outcome;
    }
    if (status.ok()) break;
    const bool may_resume = MayResume(status);
    if (!may_resume || !reconnection.MayTry(has_answered)) {
      progress.Finish();
      if (!may_resume) return status;
      return Unavailable("the daemon at {} has not answered for {} s; when it runs again: tunefarm jobs watch {}",
                         connection->address(), Reconnection::kPatience / std::chrono::seconds(1), JobNumber(job_name));
    }
    // The event ids of a restarted daemon begin at 1 again: ask for a snapshot.
    if (status.code() != absl::StatusCode::kAborted) last_event = 0;
    Notification().WaitFor(std::chrono::milliseconds(200));
  }
  progress.Finish();
  ASSIGN_OR_RETURN(outcome.job, GetJob(connection, job_name));
  if (!IsTerminal(outcome.job.state())) return Internal("the stream of {} ended before the job did", job_name);
  return outcome;
}

ExitCode ExplainEnd(const Session& session, const v1::Job& job) {
  if (job.state() == v1::JOB_STATE_FAILED) {
    session.Complain(fmt::format("job {} failed: {}", JobNumber(job.name()), job.error()));
    return kExitFailed;
  }
  if (job.state() == v1::JOB_STATE_CANCELLED) {
    session.Complain(fmt::format("job {} was cancelled", JobNumber(job.name())));
    NoteBestSoFar(session, job);
    return kExitFailed;
  }
  for (const v1::Study& study : job.studies()) {
    if (!study.has_best()) {
      const std::string failures = FailureText(study.progress());
      session.Complain(fmt::format("no valid config for {}{}\n  See why: tunefarm results {} --all",
                                   study.problem().key(), failures.empty() ? "" : " (" + failures + ")",
                                   JobNumber(job.name())));
      return kExitNoValidConfig;
    }
  }
  return kExitOk;
}

}  // namespace tunefarm::cli
