#include "server/store/sqlite/reader_pool.h"

#include <utility>

#include "server/base/status_macros.h"

namespace tunefarm::sqlite {

absl::StatusOr<std::unique_ptr<ReaderPool>> ReaderPool::Open(const std::string& path, int connections) {
  std::vector<std::unique_ptr<Database>> databases;
  for (int i = 0; i < connections; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(path, Database::Mode::kReadOnly));
    // SQLite opens the write-ahead log with the first read: done here, no later one can fail for want of a descriptor.
    RETURN_IF_ERROR(database->Execute("SELECT count(*) FROM sqlite_schema"));
    databases.push_back(std::move(database));
  }
  return std::unique_ptr<ReaderPool>(new ReaderPool(std::move(databases)));
}

ReaderPool::ReaderPool(std::vector<std::unique_ptr<Database>> databases) : databases_(std::move(databases)) {
  MutexLock lock(&mutex_);
  for (const std::unique_ptr<Database>& database : databases_) free_.push_back(database.get());
}

Database* ReaderPool::Acquire() {
  MutexLock lock(&mutex_);
  while (free_.empty()) returned_.Wait(&mutex_);
  // The last returned: its pages are the ones still in the cache.
  Database* const database = free_.back();
  free_.pop_back();
  return database;
}

void ReaderPool::Return(Database* database) {
  MutexLock lock(&mutex_);
  free_.push_back(database);
  returned_.NotifyOne();
}

}  // namespace tunefarm::sqlite
