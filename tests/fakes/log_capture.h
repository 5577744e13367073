#pragma once

#include <string>
#include <vector>

#include "server/base/log.h"
#include "server/base/mutex.h"

namespace tunefarm {

// Collects the log lines that pass the levels, instead of stderr, while it lives. One at a time. Thread-safe.
class LogCapture {
 public:
  struct Line {
    LogLevel level;
    std::string subsystem;
    std::string message;
  };

  LogCapture() {
    SetLogSink([this](LogLevel level, std::string_view subsystem, std::string_view message) {
      MutexLock lock(&mutex_);
      lines_.push_back({level, std::string(subsystem), std::string(message)});
    });
  }
  ~LogCapture() { SetLogSink(nullptr); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::vector<Line> lines() const {
    MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Line> lines_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
