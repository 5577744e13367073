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
  StudyCursor(const ListedStudy& study, const TrialPlace& place) : study_id_(study.study_id), after_(place) {
    if (study.number < place.number) after_.ordinal = std::numeric_limits<int64_t>::max();
    if (study.number > place.number) after_.ordinal = -1;
    after_.number = study.number;
  }

  // Reads the next piece, of up to `limit`, if the last one is used up. Then: whether there is a trial.
  absl::StatusOr<bool> Fill(const ReadTrials& read, const std::vector<int>& outcomes, int64_t limit) {
    if (!rows_.empty()) return true;
    ASSIGN_OR_RETURN(auto piece, read(study_id_, outcomes, after_, limit));
    for (auto& row : piece) rows_.push_back(std::move(row));
    return !rows_.empty();
  }

  TrialPlace place() const { return {after_.number, rows_.front().first.ordinal, rows_.front().second}; }
  TrialRow Take() {
    after_ = place();
    TrialRow row = std::move(rows_.front().first);
    rows_.pop_front();
    return row;
  }

 private:
  const int64_t study_id_;
  TrialPlace after_;
  std::deque<std::pair<TrialRow, double>> rows_;
};

}  // namespace

absl::StatusOr<Page<TrialRow>> ListTrialPage(const TrialQuery& query, const std::vector<ListedStudy>& studies,
                                             const ReadTrials& read) {
  std::vector<int> outcomes = query.outcomes;
  std::sort(outcomes.begin(), outcomes.end());
  const std::string identity = fmt::format("trials {} {} {} {} {}", query.job_id, query.study_number,
                                           query.order_by_time, fmt::join(outcomes, ","), query.purpose);
  ASSIGN_OR_RETURN(TrialPlace place, DecodePlace(identity, query.page.page_token));
  const auto size = static_cast<size_t>(EffectivePageSize(query.page.page_size));
  std::vector<StudyCursor> cursors;
  for (const ListedStudy& study : studies) cursors.emplace_back(study, place);
  // A page costs what it shows, however many results are stored: each study is read from its place on, and the
  // studies are merged. One row more than asked for tells whether there is a next page.
  const auto piece = static_cast<int64_t>(size / std::max<size_t>(cursors.size(), 1) + 1);
  using Place = std::pair<TrialPlace, size_t>;  // of a cursor's next trial
  const auto later = [](const Place& a, const Place& b) { return IsBehind(a.first, b.first); };
  std::priority_queue<Place, std::vector<Place>, decltype(later)> next(later);
  for (size_t i = 0; i < cursors.size(); ++i) {
    ASSIGN_OR_RETURN(const bool has_trial, cursors[i].Fill(read, outcomes, piece));
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
    ASSIGN_OR_RETURN(const bool has_trial, cursors[first].Fill(read, outcomes, piece));
    if (has_trial) next.emplace(cursors[first].place(), first);
  }
  return result;
}

}  // namespace tunefarm
