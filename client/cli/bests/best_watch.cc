#include "client/cli/bests/best_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "client/cli/bests/best_rows.h"
#include "client/cli/interruption.h"
#include "client/cli/reconnection.h"
#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"

namespace tunefarm::cli {
namespace {

// Heartbeats say nothing.
std::string LinesOf(const v1::WatchBestConfigsResponse& response, OutputFormat format) {
  if (!response.reset() && response.bests_size() + response.retired_size() == 0) return "";
  if (format == OutputFormat::kJson) return ToJsonLine(response);
  std::string lines;
  for (const v1::BestConfigKey& key : response.retired()) {
    lines += fmt::format("gone  {}  on  class {}\n", key.problem_key(), key.device_class_id());
  }
  for (const v1::BestConfig& best : response.bests()) {
    lines += fmt::format("best  {}  revision {}\n", BestLine(best), best.revision());
  }
  return lines;
}

// Leaves what is about the bests of one program.
void KeepProgram(const std::string& program, v1::WatchBestConfigsResponse* response) {
  const auto erase_others = [&program](auto* items) {
    items->erase(std::remove_if(items->begin(), items->end(),
                                [&program](const auto& item) { return item.program_digest() != program; }),
                 items->end());
  };
  erase_others(response->mutable_bests());
  erase_others(response->mutable_retired());
}

}  // namespace

absl::StatusOr<ExitCode> WatchBests(Session* session, const std::string& kernel, const std::string& program) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  Interruption interruption;
  v1::WatchBestConfigsRequest request;
  request.set_kernel(kernel);
  Reconnection reconnection(Clock::Real());
  while (true) {
    grpc::ClientContext context;
    interruption.Guard(&context);
    const auto reader = connection->catalog()->WatchBestConfigs(&context, request);
    v1::WatchBestConfigsResponse response;
    bool has_answered = false;  // a stream begins with a response
    while (reader->Read(&response)) {
      has_answered = true;
      if (response.reset() && request.after_revision() > 0) {
        session->Note("The daemon has a new catalog; all best configs follow.");
      }
      if (!program.empty()) KeepProgram(program, &response);
      session->Print(LinesOf(response, format));
      RETURN_IF_ERROR(session->FlushOutput());
      if (response.revision() > 0) {
        request.set_after_revision(response.revision());
        request.set_catalog_id(response.catalog_id());
      }
    }
    const absl::Status status = FromGrpc(reader->Finish());
    interruption.Guard(nullptr);
    if (interruption.happened()) return kExitInterrupted;
    if (!MayResume(status)) return status;
    if (!reconnection.MayTry(has_answered)) {
      return Unavailable("the daemon at {} has not answered for {} s; repeat the command when it runs again",
                         connection->address(), Reconnection::kPatience / std::chrono::seconds(1));
    }
    Notification().WaitFor(std::chrono::milliseconds(200));
  }
}

}  // namespace tunefarm::cli
