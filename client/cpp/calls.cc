#include "client/cpp/calls.h"

namespace tunefarm::client {

gpr_timespec DeadlineAfter(Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout.count(), GPR_TIMESPAN));
}

OpenCalls::OpenCalls()
    : thread_("tunefarm-rpc", [this] {
        void* tag = nullptr;
        bool ok = false;
        while (queue_.Next(&tag, &ok)) {
          (void)handed_over_.load(std::memory_order_acquire);
          static_cast<Step*>(tag)->Proceed(ok);
        }
      }) {}

OpenCalls::~OpenCalls() { queue_.Shutdown(); }

bool OpenCalls::Add(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if (closed_) return false;
  contexts_.insert(context);
  return true;
}

void OpenCalls::Remove(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  contexts_.erase(context);
  changed_.NotifyAll();
}

bool OpenCalls::is_closed() const {
  MutexLock lock(&mutex_);
  return closed_;
}

void OpenCalls::CloseAndWait() {
  MutexLock lock(&mutex_);
  closed_ = true;
  for (grpc::ClientContext* const context : contexts_) context->TryCancel();
  while (!contexts_.empty()) changed_.Wait(&mutex_);
}

}  // namespace tunefarm::client
