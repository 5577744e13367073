#include "server/store/postgres/open.h"

#include <cstdint>
#include <string>
#include <utility>

#include "server/base/file.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/agent_store.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/libpq.h"
#include "server/store/postgres/migrator.h"
#include "server/store/shared/facet_store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"

namespace tunefarm {
namespace postgres {
namespace {

constexpr uint64_t kMarkerBytesMax = 4096;

class Backend final : public SqlBackend {
 public:
  explicit Backend(Pool* pool) : pool_(pool) {}

 private:
  absl::Status Run(Access access, const Operation& operation) override {
    if (access == Access::kWrite) return pool_->Write(operation);
    return access == Access::kRead ? pool_->Read(operation) : pool_->ReadSnapshot(operation);
  }

  Pool* const pool_;
};

// Store on a PostgreSQL database that other processes may use too. Thread-safe.
class PostgresStore final : public FacetStore {
 public:
  // Clock and entropy outlive the store.
  PostgresStore(SessionOptions session, int connections_max, Clock* clock, EntropySource* entropy)
      : pool_(std::move(session), connections_max, clock, entropy), board_(clock), backend_(&pool_) {
    // With another catalog than before, ids of studies may mean others than they did.
    MakeSharedFacets(&backend_, [this](std::string_view id) {
      if (facts_.Begin(id)) board_.Invalidate();
    });
    const Shared shared{&pool_, &board_, &facts_, entropy, &backend_};
    jobs_ = NewJobStore(shared);
    studies_ = NewStudyStore(shared);
    units_ = NewUnitStore(shared);
    trials_ = NewTrialStore(shared);
    agents_ = NewAgentStore(shared);
    leases_ = NewLeaseStore(shared);
    maintenance_ = NewStoreMaintenance(shared);
  }

  int64_t Replacements() const override { return pool_.replacements(); }

 private:
  Pool pool_;
  ClaimBoard board_;
  StudyFactsCache facts_;
  Backend backend_;
};

// The marker names the database, so that another one may be empty.
absl::Status CheckNotEmptied(Session* session, const std::string& marker) {
  const absl::StatusOr<std::string> known = ReadFile(marker, kMarkerBytesMax);
  if (!known.ok() || *known != session->server() + "\n") return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool is_empty, IsEmpty(session));
  if (!is_empty) return absl::OkStatus();
  return WithReason(FailedPrecondition("{} is empty, but {} says that jobs and results were stored in it: restore a "
                                       "backup, or remove {} to begin with an empty database",
                                       session->server(), marker, marker),
                    "DATABASE_EMPTIED");
}

// Without it the database serves all the same.
void WriteInitializedMarker(const std::string& marker, const std::string& server) {
  const std::string text = server + "\n";
  if (const absl::StatusOr<std::string> known = ReadFile(marker, kMarkerBytesMax); known.ok() && *known == text) return;
  const absl::Status written = WriteFileAtomically(marker, text, 0600);
  if (!written.ok()) LogWarn("store", "an emptied database will not be noticed: {}", MessageOf(written));
}

}  // namespace

SessionOptions ToSessionOptions(const PostgresOptions& options) {
  SessionOptions session;
  session.url = options.url;
  session.statement_timeout_ms = options.statement_timeout_ms;
  session.lock_timeout_ms = options.lock_timeout_ms;
  session.silent_after_ms = options.silent_after_ms;
  session.probe_ms = options.probe_ms;
  return session;
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const PostgresOptions& options,
                                                 const std::vector<Migration>& migrations) {
  if (options.connections_max < 1 || options.connections_max > 1000) {
    return InvalidArgument("{} connections to the database cannot be; choose 1 to 1000", options.connections_max);
  }
  RETURN_IF_ERROR(LoadLibpq());
  SessionOptions session_options = ToSessionOptions(options);
  {
    session_options.is_probe = true;
    ASSIGN_OR_RETURN(const std::unique_ptr<Session> probe, Session::Open(session_options));
    ASSIGN_OR_RETURN(const ServerFacts facts, ReadFacts(probe.get()));
    RETURN_IF_ERROR(CheckServer(facts, probe->server()));
    if (const std::string warning = DurabilityWarning(facts); !warning.empty()) {
      LogWarn("store", "{}: {}", probe->server(), warning);
    }
    session_options.is_probe = false;
  }
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Open(session_options));
    if (!options.initialized_marker.empty()) {
      RETURN_IF_ERROR(CheckNotEmptied(session.get(), options.initialized_marker));
    }
    RETURN_IF_ERROR(Migrate(session.get(), migrations));
    if (!options.initialized_marker.empty()) WriteInitializedMarker(options.initialized_marker, session->server());
  }
  Clock* const clock = options.clock != nullptr ? options.clock : Clock::Real();
  EntropySource* const entropy = options.entropy != nullptr ? options.entropy : EntropySource::Real();
  auto store = std::make_unique<PostgresStore>(std::move(session_options), options.connections_max, clock, entropy);
  RETURN_IF_ERROR(store->maintenance()->CheckWritable());
  return store;
}

}  // namespace postgres

absl::StatusOr<std::string> DescribePostgresUrl(const std::string& url) {
  RETURN_IF_ERROR(postgres::LoadLibpq());
  return postgres::DescribeUrl(url);
}

absl::StatusOr<std::unique_ptr<Store>> OpenPostgresStore(const PostgresOptions& options) {
  return postgres::OpenStore(options, postgres::EmbeddedMigrations());
}

}  // namespace tunefarm
