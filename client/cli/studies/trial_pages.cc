#include "client/cli/studies/trial_pages.h"

#include <fmt/core.h>

#include <cstdint>
#include <utility>

#include "server/base/format.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {

void NoteUnreadable(const Session& session, std::string_view source, int64_t count) {
  if (count <= 0) return;
  session.Note(fmt::format("{}: {} left out", source,
                           FormatCount(count, "trial is damaged in the daemon's database and is",
                                       "trials are damaged in the daemon's database and are")));
}

absl::Status ForEachTrial(Session* session, const v1::ListTrialsRequest& request,
                          const std::function<absl::StatusOr<bool>(v1::Trial*)>& take) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListTrialsRequest page = request;
  page.set_page_size(1000);
  int64_t unreadable = 0;
  bool goes_on = true;
  do {
    ASSIGN_OR_RETURN(v1::ListTrialsResponse response,
                     Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::ListTrials, page));
    unreadable += response.unreadable();
    for (int i = 0; goes_on && i < response.trials_size(); ++i) {
      ASSIGN_OR_RETURN(goes_on, take(response.mutable_trials(i)));
    }
    page.set_page_token(response.next_page_token());
  } while (goes_on && !page.page_token().empty());
  NoteUnreadable(*session, request.parent(), unreadable);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::Trial>> FetchTrials(Session* session, const v1::ListTrialsRequest& request, size_t max) {
  std::vector<v1::Trial> trials;
  RETURN_IF_ERROR(ForEachTrial(session, request, [&](v1::Trial* trial) -> absl::StatusOr<bool> {
    trials.push_back(std::move(*trial));
    return trials.size() < max;
  }));
  return trials;
}

}  // namespace tunefarm::cli
