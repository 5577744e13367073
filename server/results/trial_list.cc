#include "server/results/trial_list.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "server/base/status_macros.h"
#include "server/store/page_token.h"

namespace tunefarm {

absl::StatusOr<TrialPage> PageOf(const Selection& trials, bool by_time, const PageRequest& page,
                                 const std::string& identity) {
  ASSIGN_OR_RETURN(const auto token, DecodePageToken(identity, page.page_token, 2));
  // A trial's place: the time in nanoseconds or the end in milliseconds, then the ordinal.
  using Place = std::pair<double, int64_t>;
  const StudyColumns& columns = trials.columns();
  const auto place_of = [&](uint32_t at) {
    const Evaluation one = columns[at];
    const double time = one.is_ok() ? one.objective_ns : std::numeric_limits<double>::infinity();
    return Place(by_time ? time : static_cast<double>(one.ended_ms), one.ordinal);
  };
  std::vector<Place> places;
  trials.ForEach([&](uint32_t at) {
    const Place place = place_of(at);
    if (!token.has_value() || place > Place(std::bit_cast<double>((*token)[0]), (*token)[1])) places.push_back(place);
  });
  const auto size = static_cast<size_t>(EffectivePageSize(page.page_size));
  const size_t shown = std::min(size, places.size());
  std::partial_sort(places.begin(), places.begin() + static_cast<ptrdiff_t>(shown), places.end());
  TrialPage result;
  for (size_t i = 0; i < shown; ++i) result.ordinals.push_back(places[i].second);
  if (shown < places.size()) {
    result.next_page_token =
        EncodePageToken(identity, {std::bit_cast<int64_t>(places[shown - 1].first), places[shown - 1].second});
  }
  return result;
}

}  // namespace tunefarm
