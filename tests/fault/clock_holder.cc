// Holds the clock of a device as a daemon's evaluator does, prints a line for each change, and frees it in order when
// its standard input ends: clock_test.py kills it and its process.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "server/base/thread.h"
#include "server/exec/clocks/clock_guard.h"

namespace tunefarm {
namespace {

// Loop thread only.
class Holder {
 public:
  Holder(EventLoop* loop, const char* worker, const std::string& directory, int mhz) : mhz_(mhz) {
    ClockGuard::Options options;
    options.worker_binary = worker;
    options.device_uuid = "GPU-1";
    options.marker = directory + "/GPU-1";
    options.idle_after = std::chrono::hours(24);
    options.in_use = [this] { return is_held_; };
    options.changed = [this] { Ask(); };
    guard_ = std::make_unique<ClockGuard>(loop, std::move(options));
  }

  void Ask() {
    std::string refusal;
    const ClockGuard::Answer answer = guard_->Ask(mhz_, &refusal);
    if (answer == ClockGuard::Answer::kWait || said_ == guard_->changes() + 1) return;
    said_ = guard_->changes() + 1;
    // From then on it is like a daemon that measures.
    is_held_ = is_held_ || (answer == ClockGuard::Answer::kReady && mhz_ > 0);
    if (answer == ClockGuard::Answer::kRefused) {
      std::printf("refused: %s\n", refusal.c_str());
    } else if (mhz_ == 0) {
      std::printf("free\n");
    } else {
      std::printf("held by %d\n", guard_->pid());
    }
    std::fflush(stdout);
  }

  ClockGuard* guard() { return guard_.get(); }

 private:
  const int mhz_;
  bool is_held_ = false;
  uint64_t said_ = 0;  // ClockGuard::changes when something was said last, plus 1; 0: nothing yet
  std::unique_ptr<ClockGuard> guard_;
};

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  using namespace tunefarm;  // NOLINT(google-build-using-namespace)
  if (argc != 4) return 2;
  EventLoop loop("supervisor", Clock::Real());
  std::unique_ptr<Holder> holder;
  loop.Post([&] {
    holder = std::make_unique<Holder>(&loop, argv[1], argv[2], std::atoi(argv[3]));
    holder->Ask();
  });
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  Notification ended;
  loop.Post([&] { holder->guard()->Shutdown([&] { ended.Notify(); }); });
  ended.WaitForNotification();
  Notification gone;
  loop.Post([&] {
    holder.reset();
    gone.Notify();
  });
  gone.WaitForNotification();
  return 0;
}
