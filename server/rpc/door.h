// Door: an address of a gRPC server whose connections an Acceptor takes, and so bounds.
//
// Threads: all by the thread that starts and ends the server. End the door before the server shuts down.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "server/base/unique_fd.h"
#include "server/rpc/acceptor.h"

namespace tunefarm {

class Door {
 public:
  // Before the server is built.
  Door(grpc::ServerBuilder* builder, const std::shared_ptr<grpc::ServerCredentials>& credentials,
       std::unique_ptr<Acceptor> acceptor)
      : server_(builder->experimental().AddExternalConnectionAcceptor(
            grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials)),
        acceptor_(std::move(acceptor)) {}

  // Once the server is built.
  void Open() {
    acceptor_->Start([to = server_.get()](int listener, UniqueFd connection) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
      taken.listener_fd = listener;
      taken.fd = connection.Release();
      to->HandleNewConnection(&taken);
    });
  }
  // Takes no more connections; those that were taken stay open.
  void Close() { acceptor_.reset(); }

 private:
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  std::unique_ptr<Acceptor> acceptor_;  // ends first
};

}  // namespace tunefarm
