#include "client/cli/studies/trial_pages.h"

#include <utility>

#include "server/base/status_macros.h"

namespace tunefarm::cli {

absl::Status ForEachTrial(Connection* connection, const v1::ListTrialsRequest& request,
                          const std::function<absl::StatusOr<bool>(v1::Trial*)>& take) {
  v1::ListTrialsRequest page = request;
  page.set_page_size(1000);
  do {
    ASSIGN_OR_RETURN(v1::ListTrialsResponse response,
                     Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::ListTrials, page));
    for (v1::Trial& trial : *response.mutable_trials()) {
      ASSIGN_OR_RETURN(const bool goes_on, take(&trial));
      if (!goes_on) return absl::OkStatus();
    }
    page.set_page_token(response.next_page_token());
  } while (!page.page_token().empty());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::Trial>> FetchTrials(Connection* connection, const v1::ListTrialsRequest& request,
                                                   size_t max) {
  std::vector<v1::Trial> trials;
  RETURN_IF_ERROR(ForEachTrial(connection, request, [&](v1::Trial* trial) -> absl::StatusOr<bool> {
    trials.push_back(std::move(*trial));
    return trials.size() < max;
  }));
  return trials;
}

}  // namespace tunefarm::cli
