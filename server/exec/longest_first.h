#pragma once

// Which of the tasks that wait for a worker begins next, when it is known how long they will probably take: the
// longest, so that none of the long ones begins when everything else is about to end (longest processing time first;
// Graham 1969). What takes an unknown time goes first, in its order: others may wait for it, and then its time is
// known. One that too many others were preferred to goes before all.
//
// Pure.

namespace tunefarm {

// `Queue`: of elements with task.expected_ms and passed_over (how often a later one was taken), oldest first, not
// empty.
template <typename Queue>
auto LongestFirst(Queue& queue, int passed_over_max) {
  auto picked = queue.begin();
  if (picked->passed_over >= passed_over_max) return picked;
  for (auto it = queue.begin(); it != queue.end() && picked->task.expected_ms > 0; ++it) {
    if (it->task.expected_ms <= 0 || it->task.expected_ms > picked->task.expected_ms) picked = it;
  }
  return picked;
}

}  // namespace tunefarm
