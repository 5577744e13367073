#include "server/catalog/miss_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/base/hash.h"

namespace tunefarm {
namespace {

// So that others are let in between.
constexpr size_t kCountedAtOnceMax = 64;
constexpr int kCandidatesMax = 16;
// What the store takes.
constexpr size_t kNameBytesMax = 256, kKeyBytesMax = 4096, kDigestBytesMax = 128, kProblemBytesMax = 65'536;
// What an entry costs besides its texts.
constexpr size_t kEntryBytes = 320;

uint64_t HashOf(std::string_view problem_key, std::string_view class_id) {
  return Xxh3(problem_key) * 0x9E3779B97F4A7C15u + Xxh3(class_id);
}

size_t BytesOf(const MissedProblem& what) {
  return kEntryBytes + what.kernel_name.size() + what.problem_key.size() + what.class_id.size() +
         what.class_name.size() + what.program_digest.size() + what.problem.size();
}

bool CanBeStored(const MissedProblem& what) {
  return what.kernel_name.size() <= kNameBytesMax && what.class_id.size() <= kNameBytesMax &&
         what.class_name.size() <= kNameBytesMax && what.problem_key.size() <= kKeyBytesMax &&
         what.program_digest.size() <= kDigestBytesMax && what.problem.size() <= kProblemBytesMax;
}

}  // namespace

bool MissTable::IsBefore::operator()(const std::shared_ptr<const MissedProblem>& a,
                                     const std::shared_ptr<const MissedProblem>& b) const {
  return std::tie(a->kernel_name, a->problem_key, a->class_id) < std::tie(b->kernel_name, b->problem_key, b->class_id);
}

MissTable::Entries::iterator MissTable::Find(uint64_t hash, std::string_view kernel_name, std::string_view problem_key,
                                             std::string_view class_id) {
  const auto [first, last] = index_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const MissedProblem& what = *at->second->miss.what;
    if (what.problem_key == problem_key && what.kernel_name == kernel_name && what.class_id == class_id)
      return at->second;
  }
  return entries_.end();
}

MissTable::Entries::iterator MissTable::Find(const MissedProblem& what) {
  return Find(HashOf(what.problem_key, what.class_id), what.kernel_name, what.problem_key, what.class_id);
}

bool MissTable::Add(const MissSource& source, const MissQuestion& question) {
  const auto found =
      Find(HashOf(question.problem_key, source.class_id), source.kernel_name, question.problem_key, source.class_id);
  if (found == entries_.end()) return false;
  Miss& miss = found->miss;
  if (miss.what->program_digest != source.program_digest) {
    auto what = std::make_shared<MissedProblem>(*miss.what);
    bytes_ -= BytesOf(*what);
    what->program_digest = source.program_digest;
    bytes_ += BytesOf(*what);
    miss.what = std::move(what);
  }
  miss.asked += 1;
  miss.match = question.match;
  miss.distance = question.distance;
  miss.last_asked_at_ms = source.asked_at_ms;
  found->is_changed = true;
  entries_.splice(entries_.begin(), entries_, found);
  return true;
}

void MissTable::Insert(Entry entry) {
  entry.hash = HashOf(entry.miss.what->problem_key, entry.miss.what->class_id);
  if (gone_.erase(entry.miss.what) > 0) entry.is_stored = true;
  bytes_ += BytesOf(*entry.miss.what);
  entries_.push_front(std::move(entry));
  index_.emplace(entries_.front().hash, entries_.begin());
}

void MissTable::Take(Entries::iterator entry, Entries* removed) {
  const auto [first, last] = index_.equal_range(entry->hash);
  index_.erase(std::find_if(first, last, [&entry](const auto& item) { return item.second == entry; }));
  bytes_ -= BytesOf(*entry->miss.what);
  if (entry->is_stored) gone_.insert(entry->miss.what);
  removed->splice(removed->end(), entries_, entry);
}

void MissTable::MakeRoom(Entries* removed) {
  while (entries_.size() > 1 && (entries_.size() > problems_max_ || bytes_ > bytes_max_)) {
    auto least = std::prev(entries_.end());
    auto at = least;
    // The newest is never one of them: it is what room is made for.
    for (int i = 1; i < kCandidatesMax && std::prev(at) != entries_.begin(); ++i) {
      --at;
      if (at->miss.asked < least->miss.asked) least = at;
    }
    not_counted_ += least->miss.asked;
    Take(least, removed);
  }
}

void MissTable::Count(const MissSource& source, std::span<const MissQuestion> questions,
                      absl::FunctionRef<std::optional<tunefarm::v1::Problem>(size_t)> problem_of) {
  std::vector<size_t> unknown;
  for (size_t first = 0; first < questions.size(); first += kCountedAtOnceMax) {
    MutexLock lock(&mutex_);
    for (size_t i = first; i < std::min(questions.size(), first + kCountedAtOnceMax); ++i) {
      if (!Add(source, questions[i])) unknown.push_back(i);
    }
  }
  for (const size_t i : unknown) {
    Entries removed;  // freed without the lock
    {
      MutexLock lock(&mutex_);
      if (Add(source, questions[i])) continue;  // the same problem twice, or another caller was faster
    }
    const std::optional<tunefarm::v1::Problem> problem = problem_of(i);
    auto what = std::make_shared<MissedProblem>();
    what->kernel_name = source.kernel_name;
    what->problem_key = questions[i].problem_key;
    what->class_id = source.class_id;
    what->class_name = source.class_name;
    what->program_digest = source.program_digest;
    if (problem.has_value()) what->problem = problem->SerializeAsString();
    MutexLock lock(&mutex_);
    if (!problem.has_value() || !CanBeStored(*what)) {
      not_counted_ += 1;
      continue;
    }
    if (Add(source, questions[i])) continue;
    Entry entry;
    entry.miss = {std::move(what),   1, questions[i].match, questions[i].distance, source.asked_at_ms,
                  source.asked_at_ms};
    entry.is_changed = true;
    Insert(std::move(entry));
    MakeRoom(&removed);
  }
}

void MissTable::Tuned(std::string_view program_digest, std::string_view problem_key, std::string_view class_id) {
  Entries removed;
  MutexLock lock(&mutex_);
  std::vector<Entries::iterator> tuned;
  const auto [first, last] = index_.equal_range(HashOf(problem_key, class_id));
  for (auto at = first; at != last; ++at) {
    const MissedProblem& what = *at->second->miss.what;
    if (what.problem_key == problem_key && what.class_id == class_id && what.program_digest == program_digest)
      tuned.push_back(at->second);
  }
  for (const auto entry : tuned) Take(entry, &removed);
}

int64_t MissTable::Remove(std::string_view kernel_name, std::string_view class_id) {
  Entries removed;
  MutexLock lock(&mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    const MissedProblem& what = *entry->miss.what;
    if (!kernel_name.empty() && what.kernel_name != kernel_name) continue;
    if (!class_id.empty() && what.class_id != class_id) continue;
    Take(entry, &removed);
  }
  if (kernel_name.empty() && class_id.empty()) not_counted_ = 0;
  return static_cast<int64_t>(removed.size());
}

std::vector<Miss> MissTable::Snapshot() const {
  std::vector<Miss> misses;
  MutexLock lock(&mutex_);
  misses.reserve(entries_.size());
  for (const Entry& entry : entries_) misses.push_back(entry.miss);
  return misses;
}

int64_t MissTable::size() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(entries_.size());
}

int64_t MissTable::changed() const {
  MutexLock lock(&mutex_);
  const auto changed = std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.is_changed; });
  return static_cast<int64_t>(changed) + static_cast<int64_t>(gone_.size());
}

int64_t MissTable::not_counted() const {
  MutexLock lock(&mutex_);
  return not_counted_;
}

void MissTable::Load(const std::vector<MissRow>& rows) {
  std::vector<const MissRow*> by_age;
  for (const MissRow& row : rows) by_age.push_back(&row);
  std::stable_sort(by_age.begin(), by_age.end(),
                   [](const MissRow* a, const MissRow* b) { return a->last_asked_at_ms < b->last_asked_at_ms; });
  Entries removed;
  MutexLock lock(&mutex_);
  for (const MissRow* row : by_age) {
    Entry entry;
    entry.miss = {std::make_shared<MissedProblem>(MissedProblem{row->kernel_name, row->problem_key, row->class_id,
                                                                row->class_name, row->program_digest, row->problem}),
                  row->asked,
                  row->match,
                  row->distance,
                  row->first_asked_at_ms,
                  row->last_asked_at_ms};
    entry.is_stored = true;
    Insert(std::move(entry));
    MakeRoom(&removed);
  }
}

MissTable::Changes MissTable::TakeChanges() {
  Changes changes;
  MutexLock lock(&mutex_);
  changes.gone.assign(gone_.begin(), gone_.end());
  gone_.clear();
  for (Entry& entry : entries_) {
    if (!entry.is_changed) continue;
    changes.present.push_back({entry.miss, entry.is_stored});
    entry.is_changed = false;
    entry.is_stored = true;
  }
  return changes;
}

void MissTable::Subtract(const Miss& written) {
  Entries removed;
  MutexLock lock(&mutex_);
  const auto found = Find(*written.what);
  if (found == entries_.end()) return;
  found->is_stored = false;
  found->miss.asked -= written.asked;
  if (found->miss.asked <= 0) Take(found, &removed);
}

void MissTable::GiveBack(const Changes& changes) {
  MutexLock lock(&mutex_);
  for (const auto& what : changes.gone) {
    const auto found = Find(*what);
    if (found == entries_.end()) {
      gone_.insert(what);
    } else {
      found->is_stored = true;
    }
  }
  for (const Changes::Present& present : changes.present) {
    const auto found = Find(*present.miss.what);
    if (found != entries_.end()) {
      found->is_changed = true;
      found->is_stored = present.was_stored;
    } else if (!present.was_stored) {
      gone_.erase(present.miss.what);
    }
  }
}

}  // namespace tunefarm
