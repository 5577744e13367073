#include "server/results/study_results.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {
namespace {

constexpr int kReaderNice = 5;
// When a study is read again from the start, its revisions begin above the earlier ones: 2^20 changes take longer than
// a millisecond.
constexpr int kRevisionBits = 20;
// Of a study without trials, about.
constexpr size_t kEntryBytes = 4096;

}  // namespace

struct StudyResults::Entry {
  Entry(const KnownStudy& study, int64_t now_ms, int64_t of_database)
      : job_id(study.job_id),
        study_id(study.study_id),
        first_revision((now_ms << kRevisionBits) + 1),
        replacements(of_database),
        data(study.types, study.default_config) {}

  const int64_t job_id, study_id;
  const int64_t first_revision;
  const int64_t replacements;  // Store::Replacements() before anything was read

  // What StudyResults::mutex_ guards. A pass reads what is stored when it begins; passes are numbered from 1.
  int64_t used = 0;
  int64_t passes_asked = 0, passes_begun = 0, passes_ended = 0;
  absl::Status status;        // of the last pass
  bool ends_with_it = false;  // the study had ended when the last pass was asked for
  bool is_complete = false;   // no further pass will find anything
  bool is_dropped = false;    // during a pass, because the memory limit was reached

  // Of the thread that reads.
  int64_t next_ordinal = 0;
  size_t bytes = kEntryBytes;

  // Held to read by calls, and to write by the thread that reads from the store, a part at a time.
  SharedMutex mutex;
  StudyData data GUARDED_BY(mutex);
  int64_t stored GUARDED_BY(mutex) = -1;   // when the first pass began; -1: not counted yet
  bool is_read GUARDED_BY(mutex) = false;  // a pass has ended
  bool is_cut GUARDED_BY(mutex) = false;
};

StudyResults::StudyResults(Store* store, Clock* clock, const StudyResultsOptions& options)
    : store_(store), clock_(clock), options_(options) {}

StudyResults::~StudyResults() {
  std::unique_ptr<ThreadPool> reader;
  MutexLock lock(&mutex_);
  reader = std::move(reader_);
}

std::shared_ptr<StudyResults::Entry> StudyResults::Find(const KnownStudy& study) {
  std::shared_ptr<Entry>& entry = entries_[study.study_id];
  const int64_t replacements = store_->Replacements();
  if (entry == nullptr || entry->replacements != replacements)
    entry = std::make_shared<Entry>(study, clock_->WallMs(), replacements);
  entry->used = ++uses_;
  return entry;
}

void StudyResults::PostPart(const std::shared_ptr<Entry>& entry) {
  if (reader_ != nullptr) reader_->Post([this, entry] { ReadPart(entry); });
}

absl::StatusOr<bool> StudyResults::Refresh(const KnownStudy& study, const std::shared_ptr<Entry>& entry) {
  MutexLock lock(&mutex_);
  if (entry->is_dropped) return false;
  if (entry->is_complete && !study.is_open) return true;
  // A pass that has begun may be past what has ended since, unless nothing has.
  const bool finds_all = entry->passes_begun > entry->passes_ended && entry->ends_with_it && !study.is_open;
  if (entry->passes_asked == entry->passes_begun && !finds_all) {
    ++entry->passes_asked;
    entry->ends_with_it = !study.is_open;
    entry->is_complete = false;
    if (reader_ == nullptr)
      reader_ = std::make_unique<ThreadPool>("results-read", 1, [] { LowerPriority(kReaderNice); });
    // One that is under way is followed by this one without further ado.
    if (entry->passes_begun == entry->passes_ended) PostPart(entry);
  }
  const int64_t pass = entry->passes_asked;
  const MonotonicTime deadline = Clock::Real()->Now() + options_.wait;
  while (entry->passes_ended < pass) {
    const Duration left = deadline - Clock::Real()->Now();
    if (left <= Duration::zero()) return false;
    read_.WaitFor(&mutex_, left);
  }
  RETURN_IF_ERROR(entry->status);
  return !entry->is_dropped;
}

absl::Status StudyResults::Read(const KnownStudy& study,
                                const std::function<absl::Status(const StudyReading&)>& answer) {
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(&mutex_);
    entry = Find(study);
  }
  ASSIGN_OR_RETURN(const bool is_up_to_date, Refresh(study, entry));
  const ReaderMutexLock lock(&entry->mutex);
  StudyReading reading;
  reading.data = &entry->data;
  reading.revision = entry->first_revision + entry->data.changes();
  reading.stored = static_cast<int64_t>(entry->data.columns().size());
  if (!entry->is_read || entry->is_cut)
    reading.stored = std::max(reading.stored, entry->stored - entry->data.unreadable());
  reading.is_cut = entry->is_cut;
  reading.is_behind = !is_up_to_date;
  return answer(reading);
}

void StudyResults::ReadPart(const std::shared_ptr<Entry>& entry) {
  bool begins = false;
  {
    MutexLock lock(&mutex_);
    begins = entry->passes_begun == entry->passes_ended;
    if (begins) entry->passes_begun = entry->passes_asked;
  }
  if (begins) {
    const WriterMutexLock lock(&entry->mutex);
    entry->data.BeginPass();
    entry->next_ordinal = entry->data.first_open();
  }
  const absl::StatusOr<bool> is_last = AddPart(entry.get());
  MutexLock lock(&mutex_);
  if (!MakeRoomFor(*entry)) {
    // Waiting calls are answered with the trials read so far; the next call reads the study from the start.
    Drop(*entry);
    entry->is_dropped = true;
    entry->passes_begun = entry->passes_ended = entry->passes_asked;
    read_.NotifyAll();
    return;
  }
  if (is_last.ok() && !*is_last) {
    PostPart(entry);
    return;
  }
  entry->status = is_last.status();
  entry->passes_ended = entry->passes_begun;
  if (!is_last.ok() && !absl::IsUnavailable(is_last.status())) {
    // The next call reads the study from the start.
    Drop(*entry);
  }
  if (entry->passes_asked > entry->passes_begun) {
    PostPart(entry);
  } else if (is_last.ok() && entry->ends_with_it) {
    entry->is_complete = true;
  }
  read_.NotifyAll();
}

absl::Status StudyResults::CountStored(Entry* entry) {
  ASSIGN_OR_RETURN(const std::vector<OutcomeCountRow> counts, store_->trials()->CountOutcomes(entry->job_id));
  int64_t stored = 0;
  for (const OutcomeCountRow& count : counts) {
    const bool is_of_search =
        count.purpose != v1::TRIAL_PURPOSE_BASELINE && count.purpose != v1::TRIAL_PURPOSE_FINALIST;
    if (count.study_id == entry->study_id && is_of_search && count.outcome != v1::OUTCOME_LOST) stored += count.count;
  }
  const WriterMutexLock lock(&entry->mutex);
  entry->stored = stored;
  return absl::OkStatus();
}

absl::StatusOr<bool> StudyResults::AddPart(Entry* entry) {
  bool is_counted = false;
  {
    const ReaderMutexLock lock(&entry->mutex);
    if (entry->is_cut) return true;
    is_counted = entry->stored >= 0;
  }
  if (!is_counted) RETURN_IF_ERROR(CountStored(entry));
  ASSIGN_OR_RETURN(const std::vector<TrialColumns> rows,
                   store_->trials()->ReadColumns(entry->study_id, entry->next_ordinal, options_.part_rows));
  const WriterMutexLock lock(&entry->mutex);
  const int64_t unreadable_before = entry->data.unreadable();
  absl::Status unreadable;
  for (const TrialColumns& row : rows) {
    unreadable.Update(entry->data.Add(row));
    entry->next_ordinal = row.ordinal + 1;
  }
  entry->data.Settle();
  if (!unreadable.ok()) {
    LogWarn("results", "job {}, study {}: {} not readable and left out of what is shown; the first: {}", entry->job_id,
            entry->study_id, FormatCount(entry->data.unreadable() - unreadable_before, "trial is", "trials are"),
            MessageOf(unreadable));
  }
  entry->bytes = kEntryBytes + entry->data.bytes();
  entry->is_cut = entry->bytes > options_.bytes_max;
  const bool is_last = entry->is_cut || static_cast<int>(rows.size()) < options_.part_rows;
  if (is_last) entry->is_read = true;
  return is_last;
}

void StudyResults::Drop(const Entry& entry) {
  const auto kept = entries_.find(entry.study_id);
  if (kept != entries_.end() && kept->second.get() == &entry) entries_.erase(kept);
}

bool StudyResults::MakeRoomFor(const Entry& entry) {
  size_t bytes = 0;
  for (const auto& [study_id, other] : entries_) bytes += other->bytes;
  while (bytes > options_.bytes_max) {
    auto oldest = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      // One that is being read is in use.
      const bool is_in_use = at->second.get() == &entry || at->second->passes_asked > at->second->passes_ended;
      if (!is_in_use && (oldest == entries_.end() || at->second->used < oldest->second->used)) oldest = at;
    }
    if (oldest == entries_.end()) {
      return std::all_of(entries_.begin(), entries_.end(), [&](const auto& kept) {
        return std::pair(kept.second->bytes, -kept.first) <= std::pair(entry.bytes, -entry.study_id);
      });
    }
    bytes -= oldest->second->bytes;
    entries_.erase(oldest);
  }
  return true;
}

}  // namespace tunefarm
