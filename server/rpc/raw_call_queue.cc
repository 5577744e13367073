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

void RawCallQueue::Start(int threads) {
  for (int i = 0; i < kAwaitedCalls; ++i) AwaitNext();
  for (int i = 0; i < threads; ++i) threads_.emplace_back("rpc-call", [this] { Run(); });
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

// What an event makes happen at once, such as the arrival of a request that is there already, is the next event of the
// same thread: no other one is woken for it.
void RawCallQueue::Run() {
  RawCall::Event* event = nullptr;
  bool ok = false;
  const auto happen = [&] {
    if (event != nullptr) event->Happen(ok);
  };
  void* next = nullptr;
  while (queue_->DoThenAsyncNext(happen, &next, &ok, gpr_inf_future(GPR_CLOCK_REALTIME)) ==
         grpc::CompletionQueue::GOT_EVENT) {
    event = static_cast<RawCall::Event*>(next);
  }
}

}  // namespace tunefarm
