#include "server/worker/verify/thread_times.h"

#include <charconv>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "server/base/file.h"

namespace tunefarm {
namespace {

ThreadTimes TimesIn(const std::string& schedstat) {
  ThreadTimes times;
  const absl::StatusOr<std::string> text = ReadFile(schedstat, 256);
  if (!text.ok()) return times;
  const char* const end = text->data() + text->size();
  const char* next = text->data();
  for (int64_t* const number : {&times.busy_ns, &times.waited_ns, &times.runs}) {
    const std::from_chars_result read = std::from_chars(next, end, *number);
    if (read.ec != std::errc() || read.ptr == end) break;
    next = read.ptr + 1;
  }
  return times;
}

}  // namespace

ThreadTimes FirstThreadTimes(pid_t pid) { return TimesIn("/proc/" + std::to_string(pid) + "/schedstat"); }

int LastProcessor(pid_t pid) {
  // proc(5): the name, in brackets, may contain anything, and is the second of the fields.
  constexpr int kName = 2, kProcessor = 39;
  const absl::StatusOr<std::string> stat = ReadFile("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!stat.ok()) return -1;
  size_t at = stat->rfind(')');
  for (int field = kName; field < kProcessor && at != std::string::npos; ++field) at = stat->find(' ', at + 1);
  int processor = -1;
  if (at != std::string::npos) std::from_chars(stat->data() + at + 1, stat->data() + stat->size(), processor);
  return processor;
}

ThreadTimes OwnThreadTimes() { return TimesIn("/proc/thread-self/schedstat"); }

}  // namespace tunefarm
