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

ThreadTimes OwnThreadTimes() { return TimesIn("/proc/thread-self/schedstat"); }

}  // namespace tunefarm
