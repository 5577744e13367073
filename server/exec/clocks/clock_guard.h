#pragma once

// Holds the clock of one GPU for the runs that want it, by a process that frees it again whatever dies
// (server/worker/nvml/clock_lock.h): one process for each hold. Between two clocks the first process has freed its own
// and exited.
//
//   free ──Ask(N)──▶ starting ──granted──▶ held ──Ask(other), idle, Shutdown──▶ ending ──exited──▶ free
//                       │ refused ────────────────────────────────────────────▶ ending
//                                           held ──the process was killed─────▶ starting, with the same clock while
//                                                                               something measures, else to free it
//
// A process that ends without having freed the clock leaves a marker behind. As long as there may be one, the clock is
// freed (a process with 0 MHz) before the device is free.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/exec/channel.h"
#include "server/exec/event_loop.h"
#include "server/exec/subprocess.h"

namespace tunefarm {

// Loop thread only, all of it.
class ClockGuard {
 public:
  struct Options {
    std::string worker_binary;
    std::string device_uuid;
    std::string marker;                                // path of the file; its directory exists
    Duration idle_after = std::chrono::seconds(5);     // the clock is freed after so long without a run
    Duration answer_after = std::chrono::seconds(30);  // longest wait for NVML
    // A run or a health check measures on the device: its clock stays as it is meanwhile.
    std::function<bool()> in_use;
    // Posted: Ask may answer otherwise than before.
    std::function<void()> changed;
  };

  // Frees the clock where a process of an earlier daemon has left its marker.
  ClockGuard(EventLoop* loop, Options options);
  // Lets a process go that has not ended: it frees the clock when it can.
  ~ClockGuard();
  ClockGuard(const ClockGuard&) = delete;
  ClockGuard& operator=(const ClockGuard&) = delete;

  enum class Answer { kReady, kWait, kRefused };
  // Whether the clock is held at `mhz` (0: is free), so that a run or a health check may begin now: in_use is true from
  // then on until it has ended. kWait: something measures under another clock, or the clock is being changed; `changed`
  // or NoteUseEnded's caller asks again. kRefused: with the reason in one sentence, which names neither the device nor
  // a process, so that the same reason is the same sentence on every device.
  Answer Ask(int mhz, std::string* refusal);
  // What has measured has ended.
  void NoteUseEnded();

  // Grows with each change of the clock and each loss of the process that holds it: a run that finds the same number
  // before and after had one clock all the time.
  uint64_t changes() const { return changes_; }
  pid_t pid() const { return process_ != nullptr ? process_->pid() : -1; }

  // Frees the clock; `done` is posted when it is free or cannot be freed within answer_after, twice that where a
  // process fails and another one tries. Refuses from now on.
  void Shutdown(std::function<void()> done);

 private:
  enum class State { kFree, kStarting, kHeld, kEnding };

  absl::Status Spawn();
  // Starts a process for the clock. A failure is a refusal.
  void Start(int mhz);
  void ReadChannel();
  void OnGranted();
  void OnExit();
  // Closes the channel: the process frees the clock and exits.
  void Close();
  // The process has ended. `is_clean`: it says that the clock is free.
  void OnEnded(bool is_clean, const std::string& how);
  void GiveUp();
  void DropProcess();
  void Refuse(int mhz, std::string why);
  void BecomeFree();
  void Reserve(int mhz);
  void WatchIdle();
  void PostChanged();
  TimerId After(Duration delay, void (ClockGuard::*call)());
  void EndReservation();
  void OnIdle();
  void StartAgain();

  EventLoop* const loop_;
  const Options options_;

  State state_ = State::kFree;
  int mhz_ = 0;  // of the process
  std::unique_ptr<Subprocess> process_;
  Channel channel_;
  EventLoop::WatchId channel_watch_ = 0, output_watch_ = 0, exit_watch_ = 0;
  TimerId answer_timer_ = 0, idle_timer_ = 0, reservation_timer_ = 0, start_timer_ = 0;
  uint64_t changes_ = 0;
  // An earlier process may have left the clock held.
  bool may_be_held_ = false;
  int losses_ = 0;  // processes in a row that ended without being asked to
  // The clock that the next run has asked for: until it begins, or a while has passed, no other changes it back.
  std::optional<int> reserved_mhz_;
  struct Refusal {
    std::string why;
    MonotonicTime until{};  // then NVML is asked again
  };
  std::map<int, Refusal> refusals_;  // by MHz: one clock's must not hide another's
  bool shut_down_ = false;
  bool tried_at_shutdown_ = false;
  std::function<void()> shutdown_done_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace tunefarm
