// Takes one uploaded file of recorded results from one client. A client of which nothing comes for a while is given up,
// so that it does not keep the room that others need. Owns itself: deleted in OnDone.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string_view>

#include "server/api/api.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/rpc/entrance.h"
#include "server/rpc/status.h"
#include "tunefarm/v1/recording_service.pb.h"

namespace tunefarm {

class UploadReactor : public grpc::ServerReadReactor<v1::CreateRecordingRequest> {
 public:
  // The file is read on `lane`, behind those that came before; Api, entrance and lane outlive the call. `idle_max`:
  // between two messages.
  UploadReactor(Api* api, const Entrance* entrance, Executor* lane, Duration idle_max,
                grpc::CallbackServerContext* call, v1::CreateRecordingResponse* response)
      : entrance_(entrance), lane_(lane), idle_max_(idle_max), call_(call), response_(response), open_call_(api) {
    absl::StatusOr<CallContext> context = entrance->Authorize(*call, kCall);
    if (!context.ok()) {
      Finish(ToGrpc(context.status()));
      return;
    }
    context_ = *std::move(context);
    absl::StatusOr<std::unique_ptr<RecordingUpload>> upload = api->CreateRecording(context_);
    if (!upload.ok()) {
      Finish(ToGrpc(upload.status()));
      return;
    }
    upload_ = *std::move(upload);
    Read();
  }

  // Nothing is touched after Finish: OnDone may run at once. It is called on the lane alone, as what gives the client
  // up runs there too.
  void OnReadDone(bool ok) override {
    lane_->Cancel(timer_);
    if (!ok) {
      // All is here, or the client is gone.
      lane_->Post([this] {
        *is_over_ = true;
        Finish(End());
      });
      return;
    }
    if (const absl::Status added = upload_->Add(&message_); !added.ok()) {
      lane_->Post([this, status = ToGrpc(added)] {
        *is_over_ = true;
        Finish(status);
      });
      return;
    }
    Read();
  }

  void OnDone() override { delete this; }

 private:
  void Read() {
    timer_ = lane_->PostAfter(idle_max_, [call = call_, is_over = is_over_] {
      if (!*is_over) call->TryCancel();
    });
    StartRead(&message_);
  }

  grpc::Status End() {
    if (call_->IsCancelled()) return ToGrpc(Cancelled("the client cancelled the upload"));
    // That the client is gone may be known a moment after the end of its messages is.
    absl::StatusOr<v1::CreateRecordingResponse> created = upload_->Finish([this] { return call_->IsCancelled(); });
    entrance_->Record(context_, kCall, nullptr, created.ok() ? &*created : nullptr, created.status());
    if (!created.ok()) return ToGrpc(created.status());
    *response_ = *std::move(created);
    return grpc::Status::OK;
  }

  static constexpr std::string_view kCall = "tunefarm.v1.RecordingService/CreateRecording";

  const Entrance* const entrance_;
  CallContext context_;
  Executor* const lane_;
  const Duration idle_max_;
  grpc::CallbackServerContext* const call_;
  v1::CreateRecordingResponse* const response_;
  Api::OpenCall open_call_;
  std::unique_ptr<RecordingUpload> upload_;
  v1::CreateRecordingRequest message_;
  TimerId timer_{};                                                      // of the read that is under way
  const std::shared_ptr<bool> is_over_ = std::make_shared<bool>(false);  // the lane's alone
};

}  // namespace tunefarm
