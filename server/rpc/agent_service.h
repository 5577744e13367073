// gRPC adapter of the conversation with agents on other machines. Calls run on threads of its own, as each waits for
// the database; those that wait for news hold no thread.
//
// Thread-safe. The server is shut down before it ends.
#pragma once

#include <memory>

#include "server/base/clock.h"
#include "server/farm/control_link.h"

namespace grpc {
class Service;
}

namespace tunefarm {

class Entrance;

class AgentServiceAdapter {
 public:
  // All outlive it.
  AgentServiceAdapter(ControlLink* link, const Entrance* entrance, Clock* clock);
  ~AgentServiceAdapter();

  // To be registered with one server.
  grpc::Service* service();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace tunefarm
