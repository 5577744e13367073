#include "server/rpc/raw_call_queue.h"

namespace tunefarm {
namespace {

// So many calls that come at once are taken without a change of threads in between.
constexpr int kAwaitedCalls = 64;

}  // namespace

void RawCallQueue::AddTo(grpc::ServerBuilder* builder) {
  builder->RegisterAsyncGenericService(&service_);
  queue_ = builder->AddCompletionQueue();
}

void RawCallQueue::Start(int threads, TaskRunner* runner) {
  for (int i = 0; i < kAwaitedCalls; ++i) AwaitNext();
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back("rpc-call", [this, runner] { runner == nullptr ? Run() : Hand(runner); });
  }
}

void RawCallQueue::Stop() {
  if (!threads_.empty()) all_are_gone_.WaitForNotification();
  queue_->Shutdown();
  if (threads_.empty()) Run();  // gRPC wants it drained
  threads_.clear();
}

void RawCallQueue::Await(grpc::GenericServerContext* context, grpc::GenericServerAsyncReaderWriter* stream,
                         RawCall::Event* arrived) {
  service_.RequestCall(context, stream, queue_.get(), queue_.get(), arrived);
}

void RawCallQueue::AwaitNext() { new RawCall(this); }

// The first thing that an event makes happen at once, such as the arrival of a request that is there already, is the
// next event of the same thread, and wakes no other one.
void RawCallQueue::Run() {
  void* event = nullptr;
  bool ok = false;
  bool is_open = queue_->Next(&event, &ok);
  while (is_open) {
    const auto happen = [call_event = static_cast<RawCall::Event*>(event), ok] { call_event->Happen(ok); };
    is_open = queue_->DoThenAsyncNext(happen, &event, &ok, gpr_inf_future(GPR_CLOCK_REALTIME)) ==
              grpc::CompletionQueue::GOT_EVENT;
  }
}

void RawCallQueue::Hand(TaskRunner* runner) {
  void* event = nullptr;
  bool ok = false;
  while (queue_->Next(&event, &ok)) {
    runner->Post([event = static_cast<RawCall::Event*>(event), ok] { event->Happen(ok); });
  }
}

}  // namespace tunefarm
