// The CLI's connection to a daemon: the one that TUNEFARM_SERVER names, or the private daemon of the data directory,
// which is started on demand and leaves when idle.
//
// Single-threaded but for Watch readers: grpc stubs are thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/xdg.h"
#include "server/dial/dial_options.h"
#include "tunefarm/v1/access_service.grpc.pb.h"
#include "tunefarm/v1/catalog_service.grpc.pb.h"
#include "tunefarm/v1/data_file_service.grpc.pb.h"
#include "tunefarm/v1/device_service.grpc.pb.h"
#include "tunefarm/v1/farm_service.grpc.pb.h"
#include "tunefarm/v1/kernel_service.grpc.pb.h"
#include "tunefarm/v1/lookup_service.grpc.pb.h"
#include "tunefarm/v1/package_service.grpc.pb.h"
#include "tunefarm/v1/server_service.grpc.pb.h"
#include "tunefarm/v1/study_service.grpc.pb.h"
#include "tunefarm/v1/tuning_service.grpc.pb.h"

namespace tunefarm::cli {

struct ConnectOptions {
  std::string server;  // --server or TUNEFARM_SERVER: "unix:/path" or "host:port"; empty: the data directory's daemon
  std::string data_directory;   // --data-dir or TUNEFARM_DATA_DIR; empty: the default one
  DialOptions dial;             // --tls-ca, --tls-certificate, --tls-key, --token-file; see WithEnvironment
  bool start_if_absent = true;  // start the private daemon; never with `server`
  std::string python;           // --python: interpreter of a private daemon that is started; empty: python3 of PATH
};

// Turns a grpc::Status into an absl::Status with our message and reason.
absl::Status FromGrpc(const grpc::Status& status);

// Whether a stream that ended so is opened again: the daemon is away (UNAVAILABLE), it cancels its streams because it
// stops (CANCELLED), or it cut a slow reader off (ABORTED). Not for a stream that this program has cancelled.
bool MayResume(const absl::Status& status);

// The program tunefarmd beside this one.
absl::StatusOr<std::string> DaemonProgram();

class Connection {
 public:
  // Unavailable with one sentence and what to do when no daemon can be reached or started.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const ConnectOptions& options,
                                                          const EnvironmentGetter& environment);

  v1::KernelService::StubInterface* kernels() { return kernels_.get(); }
  v1::PackageService::StubInterface* packages() { return packages_.get(); }
  v1::TuningService::StubInterface* tuning() { return tuning_.get(); }
  v1::StudyService::StubInterface* studies() { return studies_.get(); }
  v1::LookupService::StubInterface* lookup() { return lookup_.get(); }
  v1::CatalogService::StubInterface* catalog() { return catalog_.get(); }
  v1::DataFileService::StubInterface* data_files() { return data_files_.get(); }
  v1::DeviceService::StubInterface* devices() { return devices_.get(); }
  v1::FarmService::StubInterface* farm() { return farm_.get(); }
  v1::ServerService::StubInterface* server() { return server_.get(); }
  v1::AccessService::StubInterface* access() { return access_.get(); }
  const std::string& address() const { return address_; }
  bool started_daemon() const { return started_daemon_; }

  // For calls that search a space, with which the daemon is busy for 15 s of processor time at a low priority: what
  // that takes on a machine full of other work.
  static constexpr Duration kSpaceTimeout = std::chrono::minutes(10);

  // One unary call with a deadline: Call(connection->tuning(), &Stub::GetJob, request).
  template <typename Stub, typename Request, typename Response>
  static absl::StatusOr<Response> Call(Stub* stub,
                                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                       const Request& request, Duration timeout = std::chrono::seconds(60)) {
    grpc::ClientContext context;
    context.set_deadline(Deadline(timeout));
    Response response;
    const grpc::Status status = (stub->*method)(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && status.error_details().empty()) {
      return Late(timeout);
    }
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  // For streams, which Call cannot make.
  static gpr_timespec Deadline(Duration timeout);

 private:
  Connection(std::string address, std::shared_ptr<grpc::Channel> channel, bool started_daemon);

  // DeadlineExceeded: gRPC's own message does not say what was late.
  static absl::Status Late(Duration timeout);

  std::string address_;
  bool started_daemon_;
  std::unique_ptr<v1::KernelService::StubInterface> kernels_;
  std::unique_ptr<v1::PackageService::StubInterface> packages_;
  std::unique_ptr<v1::TuningService::StubInterface> tuning_;
  std::unique_ptr<v1::StudyService::StubInterface> studies_;
  std::unique_ptr<v1::LookupService::StubInterface> lookup_;
  std::unique_ptr<v1::CatalogService::StubInterface> catalog_;
  std::unique_ptr<v1::DataFileService::StubInterface> data_files_;
  std::unique_ptr<v1::DeviceService::StubInterface> devices_;
  std::unique_ptr<v1::FarmService::StubInterface> farm_;
  std::unique_ptr<v1::ServerService::StubInterface> server_;
  std::unique_ptr<v1::AccessService::StubInterface> access_;
};

}  // namespace tunefarm::cli
