#include "server/store/postgres/open.h"

#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/agent_store.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/job_store.h"
#include "server/store/kernel_store.h"
#include "server/store/lease_store.h"
#include "server/store/miss_store.h"
#include "server/store/poison_store.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/libpq.h"
#include "server/store/setting_store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/token_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"

namespace tunefarm {
namespace postgres {
namespace {

// Store on a PostgreSQL database that other processes may use too. Thread-safe.
class PostgresStore final : public Store {
 public:
  // Clock and entropy outlive the store.
  PostgresStore(SessionOptions session, int connections_max, Clock* clock, EntropySource* entropy)
      : entropy_(entropy), pool_(std::move(session), connections_max, clock, entropy), board_(clock) {}

  KernelStore* kernels() override { return kernels_.get(); }
  DeviceStore* devices() override { return devices_.get(); }
  JobStore* jobs() override { return jobs_.get(); }
  StudyStore* studies() override { return studies_.get(); }
  UnitStore* units() override { return units_.get(); }
  TrialStore* trials() override { return trials_.get(); }
  AgentStore* agents() override { return agents_.get(); }
  LeaseStore* leases() override { return leases_.get(); }
  BestStore* bests() override { return bests_.get(); }
  MissStore* misses() override { return misses_.get(); }
  PoisonStore* poison() override { return poison_.get(); }
  SettingStore* settings() override { return settings_.get(); }
  TokenStore* tokens() override { return tokens_.get(); }
  StoreMaintenance* maintenance() override { return maintenance_.get(); }
  int64_t Replacements() const override { return pool_.replacements(); }

 private:
  EntropySource* const entropy_;
  Pool pool_;
  ClaimBoard board_;
  StudyFactsCache facts_;
  const Shared shared_{&pool_, &board_, &facts_, entropy_};
  const std::unique_ptr<KernelStore> kernels_ = NewKernelStore(shared_);
  const std::unique_ptr<DeviceStore> devices_ = NewDeviceStore(shared_);
  const std::unique_ptr<JobStore> jobs_ = NewJobStore(shared_);
  const std::unique_ptr<StudyStore> studies_ = NewStudyStore(shared_);
  const std::unique_ptr<UnitStore> units_ = NewUnitStore(shared_);
  const std::unique_ptr<TrialStore> trials_ = NewTrialStore(shared_);
  const std::unique_ptr<AgentStore> agents_ = NewAgentStore(shared_);
  const std::unique_ptr<LeaseStore> leases_ = NewLeaseStore(shared_);
  const std::unique_ptr<BestStore> bests_ = NewBestStore(shared_);
  const std::unique_ptr<MissStore> misses_ = NewMissStore(shared_);
  const std::unique_ptr<PoisonStore> poison_ = NewPoisonStore(shared_);
  const std::unique_ptr<SettingStore> settings_ = NewSettingStore(shared_);
  const std::unique_ptr<TokenStore> tokens_ = NewTokenStore(shared_);
  const std::unique_ptr<StoreMaintenance> maintenance_ = NewStoreMaintenance(shared_);
};

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
    RETURN_IF_ERROR(Migrate(session.get(), migrations));
  }
  Clock* const clock = options.clock != nullptr ? options.clock : Clock::Real();
  EntropySource* const entropy = options.entropy != nullptr ? options.entropy : EntropySource::Real();
  auto store = std::make_unique<PostgresStore>(std::move(session_options), options.connections_max, clock, entropy);
  RETURN_IF_ERROR(store->maintenance()->CheckWritable());
  return store;
}

}  // namespace postgres

bool IsPostgresUrl(std::string_view text) {
  return text.rfind("postgres://", 0) == 0 || text.rfind("postgresql://", 0) == 0;
}

absl::StatusOr<std::string> DescribePostgresUrl(const std::string& url) {
  RETURN_IF_ERROR(postgres::LoadLibpq());
  return postgres::DescribeUrl(url);
}

absl::StatusOr<std::unique_ptr<Store>> OpenPostgresStore(const PostgresOptions& options) {
  return postgres::OpenStore(options, postgres::EmbeddedMigrations());
}

}  // namespace tunefarm
