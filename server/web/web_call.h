// WebCall: one unary call over HTTP, from its checked headers to its answer: who calls, whether that may, whether there
// is room for one more; then the message; then Route::run. Owns itself: deleted with its answer.
//
// Threads: as Call; Start on a thread that may wait for the store.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/access/gate.h"
#include "server/api/call.h"
#include "server/api/call_limits.h"
#include "server/api/router.h"
#include "server/base/clock.h"
#include "server/http/http_server.h"
#include "server/web/web_answer.h"

namespace tunefarm {

// What is the same for all calls of the listener. All outlive the calls.
struct WebSurroundings {
  const Gate* gate = nullptr;
  CallLimits* limits = nullptr;
  CallLimits* places = nullptr;  // of this listener: fewer of one principal
  OpenCalls* open_calls = nullptr;
  const Router* router = nullptr;
  Clock* clock = nullptr;
  const std::atomic<bool>* is_ending = nullptr;
};

class WebCall final : public Call {
 public:
  // `call`: "tunefarm.v1.TuningService/ListJobs", which need not exist.
  static void Start(const WebSurroundings* around, std::string call, HttpRequest request, WebAnswer answer);

  const CallContext& caller() const override { return caller_; }
  OpenCalls* open_calls() const override { return around_->open_calls; }
  void Answer(const google::protobuf::Message* request, const absl::Status& outcome,
              const google::protobuf::Message* response) override;
  void GiveUp() override;

 private:
  WebCall(const WebSurroundings* around, const Route* route, CallContext caller, HttpRequest request, WebAnswer answer)
      : Call(around->clock),
        around_(around),
        route_(route),
        caller_(std::move(caller)),
        is_gone_(std::move(request.is_gone)),
        body_(std::move(request.body)),
        answer_(std::move(answer)) {}
  bool HasCaller() const override;
  void ParseAndRun();

  const WebSurroundings* const around_;
  const Route* const route_;
  const CallContext caller_;
  const std::shared_ptr<const std::atomic<bool>> is_gone_;
  std::string body_;
  WebAnswer answer_;
  std::optional<CallLimits::Ticket> ticket_, place_;
  MemoryShare parsed_;
};

}  // namespace tunefarm
