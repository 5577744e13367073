// Trials of a job or study, fetched page by page.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm::cli {

// What commands that keep trials take at most.
inline constexpr size_t kStudyTrialsMax = 1'000'000;

// A note on stderr that so many trials of `source` are damaged in the daemon's database and are left out; none for 0.
void NoteUnreadable(const Session& session, std::string_view source, int64_t count);

// Calls `take` with each trial in the asked order, one page in memory at a time, until it returns false. Trials that
// are damaged in the daemon's database are left out, with NoteUnreadable.
absl::Status ForEachTrial(Session* session, const v1::ListTrialsRequest& request,
                          const std::function<absl::StatusOr<bool>(v1::Trial*)>& take);

// All of them, at most `max`.
absl::StatusOr<std::vector<v1::Trial>> FetchTrials(Session* session, const v1::ListTrialsRequest& request, size_t max);

}  // namespace tunefarm::cli
