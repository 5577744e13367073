#pragma once

#include <memory>

#include "server/base/random.h"
#include "server/store/postgres/claim_board.h"
#include "server/store/postgres/pool.h"
#include "server/store/postgres/study_facts.h"

namespace tunefarm {
class AgentStore;
class BestStore;
class DeviceStore;
class JobStore;
class KernelStore;
class LeaseStore;
class MissStore;
class PoisonStore;
class SettingStore;
class StoreMaintenance;
class StudyStore;
class TokenStore;
class TrialStore;
class UnitStore;
}  // namespace tunefarm

namespace tunefarm::postgres {

// What the facets of a store on PostgreSQL share, which outlives them. Thread-safe.
struct Shared {
  Pool* pool = nullptr;
  ClaimBoard* board = nullptr;
  StudyFactsCache* facts = nullptr;
  EntropySource* entropy = nullptr;  // of epochs and tokens
};

template <typename Interface>
class Facet : public Interface {
 public:
  explicit Facet(const Shared& shared)
      : pool_(shared.pool), board_(shared.board), facts_(shared.facts), entropy_(shared.entropy) {}

 protected:
  Pool* const pool_;
  ClaimBoard* const board_;
  StudyFactsCache* const facts_;
  EntropySource* const entropy_;
};

// Each is in a file of its own.
std::unique_ptr<KernelStore> NewKernelStore(const Shared& shared);
std::unique_ptr<DeviceStore> NewDeviceStore(const Shared& shared);
std::unique_ptr<JobStore> NewJobStore(const Shared& shared);
std::unique_ptr<StudyStore> NewStudyStore(const Shared& shared);
std::unique_ptr<UnitStore> NewUnitStore(const Shared& shared);
std::unique_ptr<TrialStore> NewTrialStore(const Shared& shared);
std::unique_ptr<AgentStore> NewAgentStore(const Shared& shared);
std::unique_ptr<LeaseStore> NewLeaseStore(const Shared& shared);
std::unique_ptr<BestStore> NewBestStore(const Shared& shared);
std::unique_ptr<MissStore> NewMissStore(const Shared& shared);
std::unique_ptr<PoisonStore> NewPoisonStore(const Shared& shared);
std::unique_ptr<SettingStore> NewSettingStore(const Shared& shared);
std::unique_ptr<TokenStore> NewTokenStore(const Shared& shared);
std::unique_ptr<StoreMaintenance> NewStoreMaintenance(const Shared& shared);

}  // namespace tunefarm::postgres
