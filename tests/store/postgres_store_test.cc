// The conformance suite on PostgreSQL.
#include "server/store/postgres_store.h"

#include <map>

#include "tests/fakes/postgres_server.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

// The database that stands for a directory, migrated: a copy of one that was migrated once.
class Databases {
 public:
  const std::string& Of(const std::string& directory) {
    PostgresServer* const server = PostgresServer::Shared();
    if (template_.empty()) {
      template_ = server->NewDatabase();
      TUNEFARM_CHECK_OK(OpenPostgresStore({server->Url(template_)}).status());
    }
    if (directory != directory_) {
      if (!name_.empty()) server->DropDatabase(name_);
      name_ = server->NewDatabase(template_);
      directory_ = directory;
    }
    return name_;
  }
  const std::string& current() const { return name_; }

 private:
  std::string template_, directory_, name_;
};

Databases* TheDatabases() {
  static auto* const databases = new Databases;
  return databases;
}

absl::StatusOr<std::unique_ptr<Store>> OpenIn(const std::string& directory) {
  return OpenPostgresStore({PostgresServer::Shared()->Url(TheDatabases()->Of(directory))});
}

absl::StatusOr<std::unique_ptr<Store>> OpenCopyOf(const std::string& directory) {
  PostgresServer* const server = PostgresServer::Shared();
  return OpenPostgresStore({server->Url(server->NewDatabase(TheDatabases()->Of(directory)))});
}

// Its clock is the server's: what runs out is moved instead.
void Advance(std::chrono::milliseconds by) {
  const std::string interval = "interval '" + std::to_string(by.count()) + " milliseconds'";
  PostgresServer::Shared()->Sql(TheDatabases()->current(), "UPDATE agent SET lease_until = lease_until - " + interval +
                                                               "; UPDATE named_lease SET lease_until = lease_until - " +
                                                               interval);
}

StoreFactory Factory() {
  StoreFactory factory{"postgres", OpenIn, Advance, OpenCopyOf};
  factory.makes_backups = false;
  return factory;
}

INSTANTIATE_TEST_SUITE_P(Postgres, StoreConformance, testing::Values(Factory()));
INSTANTIATE_TEST_SUITE_P(Postgres, FarmConformance, testing::Values(Factory()));

}  // namespace
}  // namespace tunefarm
