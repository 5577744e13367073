#include "server/catalog/misses.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/catalog/page_position.h"
#include "server/records/resource_names.h"
#include "server/store/kernel_store.h"
#include "server/store/lookup_store.h"

namespace tunefarm {
namespace {

// A few milliseconds of writing, for which other writes wait.
constexpr size_t kRowsAtOnceMax = 500;

MissRow RowOf(const Miss& miss) {
  const MissedProblem& what = *miss.what;
  MissRow row;
  row.kernel_name = what.kernel_name;
  row.problem_key = what.problem_key;
  row.class_id = what.class_id;
  row.class_name = what.class_name;
  row.program_digest = what.program_digest;
  row.problem = what.problem;
  row.asked = miss.asked;
  row.match = miss.match;
  row.distance = miss.distance;
  row.first_asked_at_ms = miss.first_asked_at_ms;
  row.last_asked_at_ms = miss.last_asked_at_ms;
  return row;
}

tunefarm::v1::Miss ProtoOf(const Miss& miss) {
  tunefarm::v1::Miss proto;
  proto.set_kernel_name(miss.what->kernel_name);
  // What cannot be read is still named.
  proto.mutable_problem()->ParseFromString(miss.what->problem);
  proto.mutable_problem()->set_key(miss.what->problem_key);
  proto.set_device_class_id(miss.what->class_id);
  proto.set_device_class_name(miss.what->class_name);
  proto.set_program_digest(miss.what->program_digest);
  proto.set_count(miss.asked);
  proto.set_match(static_cast<tunefarm::v1::Match>(miss.match));
  proto.set_distance(miss.distance);
  proto.set_first_asked_at_ms(miss.first_asked_at_ms);
  proto.set_last_asked_at_ms(miss.last_asked_at_ms);
  return proto;
}

// Where a miss stands in the list. What is smaller comes first.
using Place = std::tuple<int64_t, std::string_view, std::string_view, std::string_view>;

Place PlaceOf(const Miss& miss) {
  return {-miss.asked, miss.what->kernel_name, miss.what->class_id, miss.what->problem_key};
}

std::string TextOf(const Place& place) {
  return fmt::format("{}\x1f{}\x1f{}\x1f{}", -std::get<0>(place), std::get<1>(place), std::get<2>(place),
                     std::get<3>(place));
}

// Of a text as above, which must live as long. The count of another text reads as whatever it begins with.
Place PlaceIn(std::string_view text) {
  const auto part = [&text] {
    const size_t end = text.find('\x1f');
    const std::string_view first = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return first;
  };
  const int64_t asked = std::strtoll(std::string(part()).c_str(), nullptr, 10);
  const std::string_view kernel_name = part(), class_id = part();
  return {-asked, kernel_name, class_id, text};
}

}  // namespace

absl::Status Misses::ReadAll(MissTable* all) {
  RETURN_IF_ERROR(AddCounted());
  ASSIGN_OR_RETURN(const std::vector<MissRow> rows, store_->lookups()->LoadMisses());
  ASSIGN_OR_RETURN(const auto newest_programs, store_->kernels()->NewestPrograms());
  all->Load(rows);
  for (const MissRow& row : rows) {
    const auto promoted_at_ms = [&](const std::string& program_digest) {
      const auto best = catalog_->Find(program_digest, row.problem_key, row.class_id);
      return best != nullptr ? best->promoted_at_ms() : -1;
    };
    // Promoted through another daemon, or when the store could not be written.
    bool is_tuned = promoted_at_ms(row.program_digest) >= row.last_asked_at_ms;
    // Its name stands for another definition, which was tuned instead; asked in the same millisecond, it is a miss.
    const auto newest = newest_programs.find(row.kernel_name);
    is_tuned = is_tuned || (newest != newest_programs.end() && promoted_at_ms(newest->second) > row.last_asked_at_ms);
    if (is_tuned) all->Tuned(row.program_digest, row.problem_key, row.class_id);
  }
  stored_.store(all->size(), std::memory_order_relaxed);
  MissTable::Changes changes = all->TakeChanges();
  changes.present.clear();
  all->GiveBack(changes);
  WriteChanges(all).IgnoreError();  // the next call removes them
  return absl::OkStatus();
}

absl::Status Misses::Write() {
  MutexLock lock(&write_mutex_);
  if (table_.changed() == 0) return absl::OkStatus();
  MissTable all;
  return ReadAll(&all);
}

absl::Status Misses::AddCounted() {
  MissTable::Changes counted = table_.TakeChanges();
  while (!counted.present.empty()) {
    MissChanges rows;
    rows.adds = true;
    const size_t count = std::min(counted.present.size(), kRowsAtOnceMax);
    for (size_t i = counted.present.size() - count; i < counted.present.size(); ++i) {
      rows.present.push_back(RowOf(counted.present[i].miss));
    }
    const absl::Status written = store_->lookups()->WriteMisses(rows);
    if (!written.ok()) {
      table_.GiveBack(counted);
      return written;
    }
    // What was asked meanwhile is counted from there on.
    for (size_t i = counted.present.size() - count; i < counted.present.size(); ++i) {
      table_.Subtract(counted.present[i].miss);
    }
    counted.present.resize(counted.present.size() - count);
  }
  return absl::OkStatus();
}

absl::Status Misses::WriteChanges(MissTable* table) {
  MissTable::Changes rest = table->TakeChanges();
  while (!rest.gone.empty() || !rest.present.empty()) {
    MissTable::Changes part;
    const auto move_some = [](auto* from, auto* to) {
      const auto count = static_cast<ptrdiff_t>(std::min(from->size(), kRowsAtOnceMax));
      std::move(from->end() - count, from->end(), std::back_inserter(*to));
      from->erase(from->end() - count, from->end());
    };
    move_some(&rest.gone, &part.gone);
    if (part.gone.empty()) move_some(&rest.present, &part.present);
    MissChanges rows;
    for (const auto& what : part.gone) rows.gone.push_back(RowOf({what}));
    for (const auto& present : part.present) rows.present.push_back(RowOf(present.miss));
    const absl::Status written = store_->lookups()->WriteMisses(rows);
    if (!written.ok()) {
      table->GiveBack(part);
      table->GiveBack(rest);
      return written;
    }
  }
  return absl::OkStatus();
}

int64_t Misses::unwritten() const {
  MutexLock lock(&write_mutex_);
  return table_.changed();
}

absl::StatusOr<tunefarm::v1::ListMissesResponse> Misses::List(const tunefarm::v1::ListMissesRequest& request) {
  ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  std::string after;
  if (!request.page_token().empty()) {
    ASSIGN_OR_RETURN(after, PositionOfToken(request.page_token()));
  }
  MutexLock lock(&write_mutex_);
  MissTable all;
  // Without the store: what was counted here since the last time.
  return Page(ReadAll(&all).ok() ? all : table_, request, after, page_size);
}

tunefarm::v1::ListMissesResponse Misses::Page(const MissTable& table, const tunefarm::v1::ListMissesRequest& request,
                                              const std::string& after, int page_size) {
  std::vector<Miss> misses = table.Snapshot();
  std::erase_if(misses, [&](const Miss& miss) {
    return (!request.kernel().empty() && miss.what->kernel_name != request.kernel()) ||
           (!request.device_class_id().empty() && miss.what->class_id != request.device_class_id()) ||
           (!after.empty() && PlaceOf(miss) <= PlaceIn(after));
  });
  const size_t size = std::min(misses.size(), static_cast<size_t>(page_size));
  std::partial_sort(misses.begin(), misses.begin() + static_cast<ptrdiff_t>(size), misses.end(),
                    [](const Miss& a, const Miss& b) { return PlaceOf(a) < PlaceOf(b); });
  tunefarm::v1::ListMissesResponse response;
  for (size_t i = 0; i < size; ++i) *response.add_misses() = ProtoOf(misses[i]);
  if (size < misses.size()) response.set_next_page_token(PageToken(TextOf(PlaceOf(misses[size - 1]))));
  response.set_not_counted(table.not_counted());
  return response;
}

absl::StatusOr<tunefarm::v1::DeleteMissesResponse> Misses::Delete(const tunefarm::v1::DeleteMissesRequest& request) {
  MutexLock lock(&write_mutex_);
  MissTable all;
  RETURN_IF_ERROR(ReadAll(&all));
  tunefarm::v1::DeleteMissesResponse response;
  response.set_deleted(all.Remove(request.kernel(), request.device_class_id()));
  RETURN_IF_ERROR(WriteChanges(&all));
  stored_.store(all.size(), std::memory_order_relaxed);
  return response;
}

}  // namespace tunefarm
