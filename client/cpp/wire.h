// Between the messages of the API and the plain values of the public headers. Pure functions; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "tunefarm/client/answer.h"
#include "tunefarm/client/job.h"
#include "tunefarm/client/status.h"
#include "tunefarm/client/value.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/lookup_service.pb.h"
#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm::client {

// With the daemon's reason.
Status FromGrpc(const grpc::Status& status);
Status FromAbsl(const absl::Status& status);

Value FromWire(const v1::Value& value);
v1::Value ToWire(const Value& value);
Config FromWire(const v1::Config& config);
Match FromWire(v1::Match match);
Answer FromBest(const v1::BestConfig& best, Match match, Source source);
Answer FromWire(const v1::LookupConfigResponse& response);
Job FromWire(const v1::Job& job);
JobEvent FromWire(const v1::JobEvent& event);

// kInvalidArgument names the field.
Result<v1::Job> ToWire(const JobSpec& spec);

}  // namespace tunefarm::client
