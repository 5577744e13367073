// Call: one call of a client or an agent as its transport has received it, from the request until the answer. Router
// runs what answers it; a transport implements this class.
//
// Threads: Answer, Defer and GiveUp by the thread that runs the call; it may be gone when they return. The others by
// any thread until the call's end.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/access/principal.h"
#include "server/api/open_calls.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/work_limit.h"

namespace tunefarm {

// Who calls; the Gate has checked the right that the call needs.
struct CallContext {
  Principal principal;
  std::string peer;  // for the audit log
  WorkGrant grant;   // for what takes long of the call
};

// Where a call is answered. A call that has waited longer for a thread than `wait_max` is given up.
struct Lane {
  TaskRunner* threads = nullptr;  // null: the transport's own
  Duration wait_max = Duration::zero();
};

class Call {
 public:
  // The clock outlives it.
  explicit Call(const Clock* clock) : clock_(clock) {}
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  virtual const CallContext& caller() const = 0;
  virtual OpenCalls* open_calls() const = 0;
  // Whether somebody waits for the answer: the caller is there and the lane's time has not passed.
  bool IsAwaited() const { return HasCaller() && clock_->Now() <= deadline_; }

  // The call's end, once. `response` belongs to an OK outcome. `request`: for the audit log, may be null.
  virtual void Answer(const google::protobuf::Message* request, const absl::Status& outcome,
                      const google::protobuf::Message* response) = 0;
  // Instead of Answer, on the transport's thread: `task` answers, on a thread of the lane, where somebody still waits
  // by then.
  void Defer(const Lane& lane, std::function<void()> task) {
    deadline_ = clock_->Now() + lane.wait_max;
    lane.threads->PostFor(caller().principal.name, [this, task = std::move(task)] {
      if (IsAwaited()) {
        task();
      } else {
        GiveUp();
      }
    });
  }
  // Instead of Answer, where IsAwaited has become false.
  virtual void GiveUp() = 0;

 private:
  // Whether the caller is still there.
  virtual bool HasCaller() const = 0;

  const Clock* const clock_;
  MonotonicTime deadline_;
};

}  // namespace tunefarm
