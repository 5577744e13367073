// RawCallQueue: the calls of a server. It asks gRPC for them, whatever their method, and tells each what happens to it.
//
// Threads: AddTo, Start and Stop by the thread that starts and ends the server; the others are for RawCall.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <vector>

#include "server/base/executor.h"
#include "server/base/thread.h"
#include "server/rpc/raw_call.h"

namespace tunefarm {

class RawCallQueue {
 public:
  // What is in `around` outlives it.
  explicit RawCallQueue(const CallSurroundings& around) : around_(around) {}
  RawCallQueue(const RawCallQueue&) = delete;
  RawCallQueue& operator=(const RawCallQueue&) = delete;

  // Once, before the server is built. The server ends before this does.
  void AddTo(grpc::ServerBuilder* builder);
  // Once the server is built. So many threads take what happens. It runs on them, or where `runner` is given there,
  // which outlives the queue.
  void Start(int threads, TaskRunner* runner = nullptr);
  // Once the server has shut down, or where none could be built. Returns when no call is left: gRPC's server does not
  // wait for those whose connections are gone.
  void Stop();

  const CallSurroundings& around() const { return around_; }
  // `arrived` happens when there is a call, or, not ok, when there will be none. All live until then.
  void Await(grpc::GenericServerContext* context, grpc::GenericServerAsyncReaderWriter* stream,
             RawCall::Event* arrived);
  // In the place of a call that has come.
  void AwaitNext();
  // A call is there, or is waited for; and is no more.
  void Add() { calls_.fetch_add(1); }
  void Remove() {
    if (calls_.fetch_sub(1) == 1) all_are_gone_.Notify();
  }

 private:
  void Run();
  void Hand(TaskRunner* runner);

  const CallSurroundings around_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::atomic<int> calls_{0};  // from Start not 0 before the server shuts down, as calls are waited for
  Notification all_are_gone_;
  std::vector<Thread> threads_;
};

}  // namespace tunefarm
