#pragma once

#include <memory>

#include "server/base/random.h"
#include "server/store/shared/sql.h"
#include "server/store/sqlite/lease_clock.h"
#include "server/store/sqlite/reader_pool.h"
#include "server/store/sqlite/writer.h"
#include "server/store/store.h"

namespace tunefarm::sqlite {

// What the facets of a store on one SQLite file share, which outlives them: writes go through the writer thread, reads
// through the pool. Thread-safe.
struct Shared {
  Writer* writer = nullptr;
  ReaderPool* readers = nullptr;
  const LeaseClock* clock = nullptr;
  EntropySource* entropy = nullptr;  // of epochs and tokens
  SqlBackend* backend = nullptr;     // over the same
};

template <typename Interface>
class Facet : public Interface {
 public:
  // `base`: what the interface is constructed from, where it has parts of its own.
  template <typename... Base>
  explicit Facet(const Shared& shared, const Base&... base)
      : Interface(base...),
        writer_(shared.writer),
        readers_(shared.readers),
        clock_(shared.clock),
        entropy_(shared.entropy) {}

 protected:
  Writer* const writer_;
  ReaderPool* const readers_;
  const LeaseClock* const clock_;
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

}  // namespace tunefarm::sqlite
