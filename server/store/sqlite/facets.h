#pragma once

#include <memory>

#include "server/base/random.h"
#include "server/store/sqlite/lease_clock.h"
#include "server/store/sqlite/reader_pool.h"
#include "server/store/sqlite/writer.h"

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

namespace tunefarm::sqlite {

// What the facets of a store on one SQLite file share, which outlives them: writes go through the writer thread, reads
// through the pool. Thread-safe.
struct Shared {
  Writer* writer = nullptr;
  ReaderPool* readers = nullptr;
  const LeaseClock* clock = nullptr;
  EntropySource* entropy = nullptr;  // of epochs and tokens
};

template <typename Interface>
class Facet : public Interface {
 public:
  explicit Facet(const Shared& shared)
      : writer_(shared.writer), readers_(shared.readers), clock_(shared.clock), entropy_(shared.entropy) {}

 protected:
  Writer* const writer_;
  ReaderPool* const readers_;
  const LeaseClock* const clock_;
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

}  // namespace tunefarm::sqlite
