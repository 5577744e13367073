// Takes one uploaded file of recorded results from one client. Owns itself: deleted in OnDone.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "server/api/api.h"
#include "server/base/executor.h"
#include "server/rpc/status.h"
#include "tunefarm/v1/recording_service.pb.h"

namespace tunefarm {

class UploadReactor : public grpc::ServerReadReactor<v1::CreateRecordingRequest> {
 public:
  // The file is read on `lane`, behind those that came before; Api and lane outlive the call.
  UploadReactor(Api* api, const CallContext& context, Executor* lane, grpc::CallbackServerContext* call,
                v1::CreateRecordingResponse* response)
      : lane_(lane), call_(call), response_(response), open_call_(api) {
    absl::StatusOr<std::unique_ptr<RecordingUpload>> upload = api->CreateRecording(context);
    if (!upload.ok()) {
      Finish(ToGrpc(upload.status()));
      return;
    }
    upload_ = *std::move(upload);
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // All is here, or the client is gone. Nothing is touched after Finish: OnDone may run at once.
      lane_->Post([this] { Finish(End()); });
      return;
    }
    if (const absl::Status added = upload_->Add(&message_); !added.ok()) {
      Finish(ToGrpc(added));
      return;
    }
    StartRead(&message_);
  }

  void OnDone() override { delete this; }

 private:
  grpc::Status End() {
    if (call_->IsCancelled()) return ToGrpc(Cancelled("the client cancelled the upload"));
    absl::StatusOr<v1::CreateRecordingResponse> created = upload_->Finish();
    if (!created.ok()) return ToGrpc(created.status());
    *response_ = *std::move(created);
    return grpc::Status::OK;
  }

  Executor* const lane_;
  grpc::CallbackServerContext* const call_;
  v1::CreateRecordingResponse* const response_;
  Api::OpenCall open_call_;
  std::unique_ptr<RecordingUpload> upload_;
  v1::CreateRecordingRequest message_;
};

}  // namespace tunefarm
