// Agreements: answers that are the same for all processes of a distributed run. The first answer to a question of a run
// is a row of the store, and every later one is that row, on whichever daemon of the store it is asked.
//
// Thread-safe. Agree may read and write the store; what it knows it answers from memory for an hour.
#pragma once

#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/mutex.h"
#include "server/lookup/lookups.h"
#include "server/store/lookup_store.h"
#include "server/store/store.h"
#include "tunefarm/v1/lookup_service.pb.h"

namespace tunefarm {

class Agreements {
 public:
  // The store and what the context names outlive it.
  Agreements(const LookupContext& context, Store* store, const AgreementLimits& limits = {})
      : context_(context), store_(store), limits_(limits) {}

  // `owner`: in whose quota a run counts that begins now; empty: that of the local sockets. InvalidArgument
  // (RUN_INVALID); the errors of LookupConfig, which are not agreed on; FailedPrecondition (RUN_TOO_OLD) where the
  // problem's best has changed too often since the run began; ResourceExhausted (RUN_QUOTA); the store's errors.
  absl::StatusOr<tunefarm::v1::AgreeConfigResponse> Agree(const std::string& owner,
                                                          const tunefarm::v1::AgreeConfigRequest& request)
      LOCKS_EXCLUDED(mutex_);

 private:
  struct Known {
    Agreement agreement;  // with an answer
    MonotonicTime read_at;
    int64_t replacements = 0;  // of the store, before it was read
  };

  absl::StatusOr<Agreement> Find(const std::string& owner, const tunefarm::v1::AgreeConfigRequest& request,
                                 const Digest& question) LOCKS_EXCLUDED(mutex_);
  // The run, which begins if it is not there, and the answer if the question was asked.
  absl::StatusOr<Agreement> FindStored(const std::string& owner, const std::string& run_id, const Digest& question);
  // What is agreed on if nobody was faster.
  absl::StatusOr<tunefarm::v1::LookupConfigResponse> FirstAnswer(const tunefarm::v1::LookupConfigRequest& question,
                                                                 int64_t run_revision);
  void Remember(const Digest& question, const Known& known) LOCKS_EXCLUDED(mutex_);

  const LookupContext context_;
  Store* const store_;
  const AgreementLimits limits_;
  Mutex mutex_;
  std::unordered_map<Digest, Known> known_ GUARDED_BY(mutex_);  // by run and question
  size_t known_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm
