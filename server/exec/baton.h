#pragma once

// The right to use a device while others have a context on it: at most one worker has it. A runner takes it to measure,
// a standby for each step of its preparation, so that no sample is taken while the standby's work is on the device.
//
// Loop thread only. Holders are told apart by their address, which is never followed.

#include <deque>
#include <functional>
#include <utility>

namespace tunefarm {

class Baton {
 public:
  Baton() = default;
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;

  // `granted` is called once, from within this call if the baton is free, else when those before have given it back. It
  // may call any method but must not destroy the Baton.
  void Take(const void* who, std::function<void()> granted);
  // Gives it back, or gives up waiting for it. Nothing for one that neither has it nor waits.
  void Drop(const void* who);

  bool IsHeldBy(const void* who) const { return holder_ == who && who != nullptr; }
  bool IsWaiting(const void* who) const;

 private:
  const void* holder_ = nullptr;
  std::deque<std::pair<const void*, std::function<void()>>> waiting_;
};

}  // namespace tunefarm
