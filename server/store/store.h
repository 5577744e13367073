// Store: everything durable, cut by subject into facets, so that another database can stand behind it and pass the same
// conformance suite (tests/store). Definitions, problems, policies and trial details are opaque bytes here. Each facet
// has a header of its own (kernel_store.h, job_store.h, ...), which callers include for what they call.
//
// Threads: all methods of all facets may be called from any thread. Writes block until they are durable (group commit);
// reads do not wait for writes, and see every write that has returned. Errors: NotFound for an id that does not exist;
// InvalidArgument for a value outside its limits; AlreadyExists and FailedPrecondition as documented; Unavailable when
// the database cannot be written (disk full, read-only): nothing was changed and the call may be repeated; DataLoss
// when it is damaged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tunefarm {

class AgentStore;
class BestStore;
class Clock;
class DeviceStore;
class EntropySource;
class JobStore;
class KernelStore;
class LeaseStore;
class LookupStore;
class PoisonStore;
class SettingStore;
class StoreMaintenance;
class StudyStore;
class TokenStore;
class TrialStore;
class UnitStore;

class Store {
 public:
  virtual ~Store() = default;

  // The facets live as long as the store.
  virtual KernelStore* kernels() = 0;
  virtual DeviceStore* devices() = 0;
  virtual JobStore* jobs() = 0;
  virtual StudyStore* studies() = 0;
  virtual UnitStore* units() = 0;
  virtual TrialStore* trials() = 0;
  virtual AgentStore* agents() = 0;
  virtual LeaseStore* leases() = 0;
  virtual BestStore* bests() = 0;
  virtual LookupStore* lookups() = 0;
  virtual PoisonStore* poison() = 0;
  virtual SettingStore* settings() = 0;
  virtual TokenStore* tokens() = 0;
  virtual StoreMaintenance* maintenance() = 0;

  // How often the database was found to be another one than before, as one is that was put back to an older state: what
  // was read before may not be true of it. Known before any call works on it. Does not touch the database.
  virtual int64_t Replacements() const = 0;
};

struct SqliteOptions {
  std::string path;                  // the database file; its directory exists
  std::string backup_directory;      // where a copy goes before migrating; made if missing
  int64_t database_bytes_max = 0;    // the file never grows beyond: Unavailable, as for a full disk; 0: no bound
  Clock* clock = nullptr;            // of leases, migrations and backups; outlives the store; null: the real one
  EntropySource* entropy = nullptr;  // of tokens and epochs; outlives the store; null: the real one
};

// Opens or creates the database and applies migrations, each with its version row in one transaction, after a backup.
// After a run that did not close the database it is checked first. FailedPrecondition: a newer schema than this program
// knows, a migration applied with another text, a network file system, not our file, or an empty or missing one where
// PATH.initialized says that there was a database (DATABASE_EMPTIED). Unavailable: cannot be opened or written.
// DataLoss: damaged. The database's files get mode 0600. One process per database: the caller holds the data
// directory's lock.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const SqliteOptions& options);

}  // namespace tunefarm
