// LookupApi: the calls of LookupService. Lookups never wait for tuning, and not for the store once their kernel is
// cached. What a run agrees on is read from the store, and written to it, the first time.
//
// Thread-safe.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/jobs/trial_tally.h"
#include "server/lookup/agreements.h"
#include "server/lookup/lookups.h"
#include "server/nodes/node_watch.h"
#include "server/store/store.h"
#include "tunefarm/v1/lookup_service.pb.h"

namespace tunefarm {

class LookupApi {
 public:
  // All outlive it, and what the context names. `tally` counts the answers.
  LookupApi(const LookupContext& context, Store* store, const NodeWatch* node_watch, TrialTally* tally)
      : context_(context), node_watch_(node_watch), tally_(tally), agreements_(context, store) {}

  // The errors of the functions of the same name in server/lookup.
  absl::StatusOr<v1::LookupConfigResponse> LookupConfig(const v1::LookupConfigRequest& request);
  // The answer of LookupConfig where it needs no store and is no error; else nothing, and nothing is counted.
  std::optional<LookupAnswer> LookupInMemory(const v1::LookupConfigRequest& request);
  absl::StatusOr<v1::BatchLookupConfigsResponse> BatchLookupConfigs(const v1::BatchLookupConfigsRequest& request);
  // The errors of Agreements::Agree. Returns when what is agreed on is durable.
  absl::StatusOr<v1::AgreeConfigResponse> AgreeConfig(const Principal& principal,
                                                      const v1::AgreeConfigRequest& request);
  // InvalidArgument (PAGE_SIZE_INVALID, PAGE_TOKEN_INVALID).
  absl::StatusOr<v1::ListBestConfigsResponse> ListBestConfigs(const v1::ListBestConfigsRequest& request);

 private:
  // Counts the answer.
  void Complete(LookupAnswer* answer);

  const LookupContext context_;
  const NodeWatch* const node_watch_;
  TrialTally* const tally_;
  Agreements agreements_;
};

}  // namespace tunefarm
