// Bests and what became of them, as tables and lines.
#pragma once

#include <string>

#include "client/cli/output.h"
#include "tunefarm/v1/catalog_service.pb.h"
#include "tunefarm/v1/lookup_service.pb.h"

namespace tunefarm::cli {

// For people, or with plain numbers for programs (times in nanoseconds and milliseconds since 1970).
Table BestsTable(const v1::ListBestConfigsResponse& bests, bool is_csv);
Table BestChangesTable(const v1::ListBestConfigChangesResponse& changes, bool is_csv);

// "pinned  scale_host  N=1024  on  Example CPU": the word says what was done; then its config, its time and so on.
std::string ChangedBestText(const std::string& word, const v1::BestConfig& best, bool is_there);
// One line.
std::string BestLine(const v1::BestConfig& best);

}  // namespace tunefarm::cli
