// The format of the file: a line "tunefarm file sets 1 CHECKSUM", and for each set, the least recently used first, a
// line "STATE CONTENT BYTES" and that many bytes of packed paths. CHECKSUM, of all that follows its line, STATE and
// CONTENT are 16 hexadecimal digits.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/file.h"
#include "server/base/file_set.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

constexpr std::string_view kTitle = "tunefarm file sets 1 ";
// Of a set's line.
constexpr size_t kLineBytesMax = 64;
constexpr uint64_t kFileBytesMax = FileSetBook::kBytesMax + (FileSetBook::kSetsMax + 1) * kLineBytesMax;

std::string Encode(const std::vector<std::shared_ptr<const FileSet>>& sets) {
  std::string body;
  for (const auto& files : sets) {
    body += fmt::format("{:016x} {:016x} {}\n{}", files->state, files->content, files->packed_paths.size(),
                        files->packed_paths);
  }
  return fmt::format("{}{:016x}\n{}", kTitle, Xxh3(body), body);
}

// The number that `text` begins with, up to `end`; both are taken from it.
std::optional<uint64_t> TakeNumber(std::string_view* text, char end, int base) {
  uint64_t number = 0;
  const char* const last = text->data() + text->size();
  const auto [at, error] = std::from_chars(text->data(), last, number, base);
  if (error != std::errc() || at == last || *at != end) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(at - text->data()) + 1);
  return number;
}

absl::StatusOr<std::vector<FileSet>> Decode(std::string_view text) {
  if (text.substr(0, kTitle.size()) != kTitle) return DataLoss("it does not begin as a list of file sets");
  text.remove_prefix(kTitle.size());
  const std::optional<uint64_t> checksum = TakeNumber(&text, '\n', 16);
  if (checksum != Xxh3(text)) return DataLoss("its checksum is wrong");
  std::vector<FileSet> sets;
  while (!text.empty()) {
    const std::optional<uint64_t> state = TakeNumber(&text, ' ', 16);
    const std::optional<uint64_t> content = state.has_value() ? TakeNumber(&text, ' ', 16) : std::nullopt;
    const std::optional<uint64_t> bytes = content.has_value() ? TakeNumber(&text, '\n', 10) : std::nullopt;
    if (!bytes.has_value() || *bytes > text.size()) return DataLoss("set {} of it cannot be read", sets.size() + 1);
    sets.push_back({std::string(text.substr(0, *bytes)), *state, *content});
    text.remove_prefix(*bytes);
  }
  return sets;
}

}  // namespace

FileSetBook::FileSetBook(std::string path, Clock* clock) : path_(std::move(path)), clock_(clock) {
  const absl::StatusOr<std::string> text = ReadFile(path_, kFileBytesMax);
  if (absl::IsNotFound(text.status())) return;
  const absl::StatusOr<std::vector<FileSet>> sets = text.ok() ? Decode(*text) : text.status();
  if (!sets.ok()) {
    LogWarn("exec", "{} is not used, and replaced later: {}", path_, MessageOf(sets.status()));
    return;
  }
  MutexLock lock(&mutex_);
  for (const FileSet& files : *sets) Put(files);
}

void FileSetBook::Note(const FileSet& files) {
  if (files.packed_paths.empty() || files.state == 0 || files.content == 0) return;
  MutexLock write_lock(&write_mutex_);
  {
    MutexLock lock(&mutex_);
    if (!Put(files)) return;
  }
  Write();
}

bool FileSetBook::Put(const FileSet& files) {
  const uint64_t checksum = ChecksumOf(files);
  const auto found = index_.find(checksum);
  if (found != index_.end()) {
    Entry& entry = *found->second;
    entries_.splice(entries_.begin(), entries_, found->second);
    entry.have_changed = false;
    if (*entry.files == files) return false;
    // The same content at another time of change, or in other files of the same names.
    bytes_ -= entry.files->packed_paths.size();
    entry.files = std::make_shared<const FileSet>(files);
  } else {
    entries_.push_front({checksum, std::make_shared<const FileSet>(files), false, {}});
    index_[checksum] = entries_.begin();
  }
  bytes_ += files.packed_paths.size();
  while (entries_.size() > kSetsMax || bytes_ > kBytesMax) {
    bytes_ -= entries_.back().files->packed_paths.size();
    index_.erase(entries_.back().checksum);
    entries_.pop_back();
  }
  return true;
}

void FileSetBook::Write() {
  std::vector<std::shared_ptr<const FileSet>> sets;
  {
    MutexLock lock(&mutex_);
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) sets.push_back(entry->files);
  }
  const absl::Status written = WriteFileAtomically(path_, Encode(sets), 0600);
  if (!written.ok() && !warned_) {
    LogWarn("exec", "which headers binaries were made of is not kept for the next start: {}", MessageOf(written));
  }
  warned_ = !written.ok();
}

bool FileSetBook::HaveChanged(uint64_t checksum) {
  const MonotonicTime begun = clock_->Now();
  std::shared_ptr<const FileSet> files;
  {
    MutexLock lock(&mutex_);
    const auto found = index_.find(checksum);
    if (found == index_.end()) return false;
    const Entry& entry = *found->second;
    entries_.splice(entries_.begin(), entries_, found->second);
    if (is_looking_ || begun < entry.next_look) return entry.have_changed;
    is_looking_ = true;
    files = entry.files;
  }
  const bool have_changed = !IsUnchanged(*files);
  const MonotonicTime ended = clock_->Now();
  MutexLock lock(&mutex_);
  is_looking_ = false;
  const auto found = index_.find(checksum);
  // Noted again meanwhile, with another state: the next look is at that.
  if (found != index_.end() && found->second->files == files) {
    found->second->have_changed = have_changed;
    found->second->next_look = ended + std::clamp(100 * (ended - begun), kLookInterval, kLookIntervalMax);
  }
  return have_changed;
}

}  // namespace tunefarm
