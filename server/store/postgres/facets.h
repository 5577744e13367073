#pragma once

#include <memory>

#include "server/base/random.h"
#include "server/store/postgres/claim_board.h"
#include "server/store/postgres/pool.h"
#include "server/store/postgres/study_facts.h"
#include "server/store/shared/sql.h"
#include "server/store/store.h"

namespace tunefarm::postgres {

// What the facets of a store on PostgreSQL share, which outlives them. Thread-safe.
struct Shared {
  Pool* pool = nullptr;
  ClaimBoard* board = nullptr;
  StudyFactsCache* facts = nullptr;
  EntropySource* entropy = nullptr;  // of epochs and tokens
  SqlBackend* backend = nullptr;     // over the pool
};

template <typename Interface>
class Facet : public Interface {
 public:
  // `base`: what the interface is constructed from, where it has parts of its own.
  template <typename... Base>
  explicit Facet(const Shared& shared, const Base&... base)
      : Interface(base...), pool_(shared.pool), board_(shared.board), facts_(shared.facts), entropy_(shared.entropy) {}

 protected:
  Pool* const pool_;
  ClaimBoard* const board_;
  StudyFactsCache* const facts_;
  EntropySource* const entropy_;
};

// Each is in a file of its own.
std::unique_ptr<JobStore> NewJobStore(const Shared& shared);
std::unique_ptr<StudyStore> NewStudyStore(const Shared& shared);
std::unique_ptr<UnitStore> NewUnitStore(const Shared& shared);
std::unique_ptr<TrialStore> NewTrialStore(const Shared& shared);
std::unique_ptr<AgentStore> NewAgentStore(const Shared& shared);
std::unique_ptr<LeaseStore> NewLeaseStore(const Shared& shared);
std::unique_ptr<StoreMaintenance> NewStoreMaintenance(const Shared& shared);

}  // namespace tunefarm::postgres
