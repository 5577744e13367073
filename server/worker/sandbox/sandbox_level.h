#pragma once

// What isolation a worker has reached. L1 means all of it: processes, mounts, network, IPC and host name of its own, a
// root directory that shows only what the role needs, a fresh /proc, an unprivileged uid, no capabilities, a seccomp
// filter, one GPU's node at most, and a scratch directory of bounded size as the only place to write. Whatever lacks
// anything is L0, and says what. One thread.

#include <fmt/core.h>
#include <string.h>

#include <cerrno>
#include <string>
#include <string_view>

namespace tunefarm {

class SandboxLevel {
 public:
  void Had(std::string_view what) { Append(what, &had_); }
  void Lacked(std::string_view what, std::string_view why) { Append(fmt::format("{} ({})", what, why), &lacked_); }

  // Had or Lacked; the reason is errno's.
  bool Note(bool success, std::string_view what) {
    if (success) {
      Had(what);
    } else {
      Lacked(what, strerrordesc_np(errno));
    }
    return success;
  }

  bool is_complete() const { return lacked_.empty(); }

  // "L1: pid namespace, ..." or "L0: ...; without network namespace (Operation not permitted)".
  std::string Text() const {
    std::string text = is_complete() ? "L1: " : "L0: ";
    text += had_.empty() ? "no isolation" : had_;
    if (!lacked_.empty()) text += "; without " + lacked_;
    return text;
  }

 private:
  static void Append(std::string_view what, std::string* list) {
    if (!list->empty()) *list += ", ";
    *list += what;
  }

  std::string had_, lacked_;
};

}  // namespace tunefarm
