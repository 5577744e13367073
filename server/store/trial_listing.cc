#include "server/store/trial_listing.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>

#include "server/base/status_macros.h"
#include "server/store/page_token.h"

namespace tunefarm {
namespace {

bool IsBehind(const TrialPlace& a, const TrialPlace& b) {
  return std::tie(a.sort_ns, a.number, a.ordinal) > std::tie(b.sort_ns, b.number, b.ordinal);
}

absl::StatusOr<TrialPlace> DecodePlace(std::string_view query, std::string_view token) {
  ASSIGN_OR_RETURN(const auto numbers, DecodePageToken(query, token, 3));
  TrialPlace place;
  if (!numbers.has_value()) return place;
  place.number = (*numbers)[0];
  place.ordinal = (*numbers)[1];
  std::memcpy(&place.sort_ns, &(*numbers)[2], sizeof(place.sort_ns));
  return place;
}

std::string EncodePlace(std::string_view query, const TrialPlace& place) {
  int64_t bits;
  std::memcpy(&bits, &place.sort_ns, sizeof(bits));
  return EncodePageToken(query, {place.number, place.ordinal, bits});
}

// The trials of one study in the order of the listing.
class StudyCursor {
 public:
  // Begins behind `place`, which may be a trial of another study.
  StudyCursor(const ListedStudy& study, TrialPlace place, const std::vector<int64_t>& outcomes, int64_t limit) {
    if (study.number < place.number) place.ordinal = std::numeric_limits<int64_t>::max();
    if (study.number > place.number) place.ordinal = -1;
    place.number = study.number;
    next_ = {study.study_id, outcomes, place, limit};
  }

  // Reads the next piece if the last one is used up. Then: whether there is a trial.
  absl::StatusOr<bool> Fill(const ReadTrials& read) {
    if (!rows_.empty()) return true;
    ASSIGN_OR_RETURN(PlacedTrials piece, read(next_));
    for (auto& row : piece) rows_.push_back(std::move(row));
    return !rows_.empty();
  }

  TrialPlace place() const { return {next_.after.number, rows_.front().first.ordinal, rows_.front().second}; }
  TrialRow Take() {
    next_.after = place();
    TrialRow row = std::move(rows_.front().first);
    rows_.pop_front();
    return row;
  }

 private:
  TrialPiece next_;
  std::deque<std::pair<TrialRow, double>> rows_;
};

}  // namespace

absl::StatusOr<Page<TrialRow>> ListTrialPage(const TrialQuery& query, const std::vector<ListedStudy>& studies,
                                             const ReadTrials& read) {
  std::vector<int64_t> outcomes(query.outcomes.begin(), query.outcomes.end());
  std::sort(outcomes.begin(), outcomes.end());
  const std::string identity = fmt::format("trials {} {} {} {} {}", query.job_id, query.study_number,
                                           query.order_by_time, fmt::join(outcomes, ","), query.purpose);
  ASSIGN_OR_RETURN(TrialPlace place, DecodePlace(identity, query.page.page_token));
  const auto size = static_cast<size_t>(EffectivePageSize(query.page.page_size));
  std::vector<StudyCursor> cursors;
  // A page costs what it shows, however many results are stored: each study is read from its place on, and the
  // studies are merged. One row more than asked for tells whether there is a next page.
  const auto limit = static_cast<int64_t>(size / std::max<size_t>(studies.size(), 1) + 1);
  for (const ListedStudy& study : studies) cursors.emplace_back(study, place, outcomes, limit);
  using Place = std::pair<TrialPlace, size_t>;  // of a cursor's next trial
  const auto later = [](const Place& a, const Place& b) { return IsBehind(a.first, b.first); };
  std::priority_queue<Place, std::vector<Place>, decltype(later)> next(later);
  for (size_t i = 0; i < cursors.size(); ++i) {
    ASSIGN_OR_RETURN(const bool has_trial, cursors[i].Fill(read));
    if (has_trial) next.emplace(cursors[i].place(), i);
  }
  Page<TrialRow> result;
  while (!next.empty()) {
    if (result.rows.size() == size) {
      result.next_page_token = EncodePlace(identity, place);
      break;
    }
    const size_t first = next.top().second;
    next.pop();
    place = cursors[first].place();
    result.rows.push_back(cursors[first].Take());
    ASSIGN_OR_RETURN(const bool has_trial, cursors[first].Fill(read));
    if (has_trial) next.emplace(cursors[first].place(), first);
  }
  return result;
}

}  // namespace tunefarm
