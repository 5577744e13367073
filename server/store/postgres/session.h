#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/postgres/parameters.h"
#include "server/store/postgres/wire.h"
#include "server/store/shared/sql.h"

struct pg_conn;
struct pg_result;

namespace tunefarm::postgres {

// A row of Rows, which must outlive it.
class Row final : public SqlRow {
 public:
  Row(const pg_result* result, int row) : result_(result), row_(row) {}
  bool IsNull(int column) const override;
  int64_t Int(int column) const override;
  double Real(int column) const override;
  std::string Bytes(int column) const override;
  // Of a bigint array.
  std::vector<int64_t> Ints(int column) const;

 private:
  std::string_view View(int column) const;

  const pg_result* result_;
  int row_;
};

// What a statement has answered, whole in memory. Movable; belongs to one thread.
class Rows {
 public:
  explicit Rows(pg_result* result) : result_(result) {}
  int size() const;
  bool empty() const { return size() == 0; }
  Row operator[](int row) const { return Row(result_.get(), row); }
  // Rows that the statement has changed.
  int64_t changes() const;
  // Whether the statement ended a transaction by undoing it.
  bool is_rollback() const;

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

// Why the last statement failed, as far as repeating goes.
enum class Failure {
  kNone,
  kRefused,      // it will fail again
  kConflict,     // with another transaction (serialization, deadlock): undone, may be repeated
  kLockTimeout,  // a lock was not free within lock_timeout
  kConnection,   // the session is of no use any more: what was not committed is undone
  kSilence       // as kConnection, but repeated it would only wait again
};

struct SessionOptions {
  std::string url;
  int connect_timeout_ms = 5000;      // for each server that the URL names
  int statement_timeout_ms = 30'000;  // 0: none
  int lock_timeout_ms = 10'000;
  int idle_in_transaction_ms = 30'000;
  int silent_after_ms = 2000;    // then `presence` finds out whether the server is there at all
  int probe_ms = 1500;           // for which it has so long
  Presence* presence = nullptr;  // outlives the session; null: only the other limits end a wait
  bool is_probe = false;         // only to ask a server what it is: nothing is set
};

// What the server is called in messages: without user and password. InvalidArgument, without the text itself, unless
// libpq takes it for a URL.
absl::StatusOr<std::string> DescribeUrl(const std::string& url);

// Whether the server answers a new connection, be it with a refusal, within its connect timeout.
bool IsAnswering(const SessionOptions& options);

// One connection, with prepared statements. Blocks, but never for longer than the statement timeout and 5 s. Belongs to
// one thread at a time.
class Session final : public Sql {
 public:
  // Unavailable if the server cannot be reached or takes no more connections; FailedPrecondition if it does not let us
  // in or has no such database.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const SessionOptions& options);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs one statement of any kind; its answer with types that SqlRow has not.
  template <typename... Values>
  absl::StatusOr<Rows> Query(std::string_view sql, const Values&... values) {
    return Execute(sql, Parameters({SqlValueOf(values)...}));
  }
  absl::StatusOr<Rows> Execute(std::string_view sql, const Parameters& parameters);
  // Any number of statements without parameters, not prepared.
  absl::Status Script(const std::string& sql);
  // For statements that take long, whose own timeout is the caller's to lift: such as kLongCallMax.
  static constexpr Duration kLongCallMax = std::chrono::hours(1);
  void set_call_max(Duration call_max) { wire_.set_call_max(call_max); }

  // COPY … FROM STDIN: begin, bytes in pieces, end. After an error nothing of it is there and the transaction has
  // failed.
  absl::Status BeginCopy(const std::string& sql);
  absl::Status PutCopy(std::string_view bytes);
  absl::Status EndCopy();

  absl::Status Begin();
  absl::Status BeginSnapshot();  // read only, one snapshot
  // The transaction's id, for Outcome; 0 if it has changed nothing.
  absl::StatusOr<int64_t> TransactionId();
  absl::Status Commit();
  void Rollback();

  Failure last_failure() const { return last_failure_; }
  bool is_broken() const { return is_broken_; }
  // The server's process that serves this session.
  struct Backend {
    int64_t pid = 0;
    int64_t started_at = 0;  // tells it from another one of the same number
  };
  const Backend& backend() const { return backend_; }
  // Which database this is, of all servers: another text where one was restored in its place, or where another server
  // took over from the one that had it and may not have had all. Empty: the server does not tell.
  const std::string& database() const { return database_; }
  const std::string& server() const { return server_; }
  const std::string& name() const override { return server_; }
  bool has_other_writers() const override { return true; }

 private:
  Session(pg_conn* connection, std::string server, const Patience& patience);
  // Of a URL that names several servers, one of them; empty: as the URL says.
  struct Endpoint {
    std::string host, port;
  };
  static std::vector<Endpoint> EndpointsOf(const std::string& url);
  static absl::StatusOr<std::unique_ptr<Session>> OpenAt(const SessionOptions& options, const Endpoint& endpoint,
                                                         const std::string& server);
  absl::Status SetUp(const SessionOptions& options);
  void FindDatabase();
  absl::Status Prepare(std::string_view sql, const Parameters& parameters, const char** name);
  // The answer to what one of libpq's PQsend… calls has sent, or could not.
  absl::StatusOr<Rows> Answer(int was_sent);
  // Takes the result. OK, or what has gone wrong, which is noted.
  absl::StatusOr<Rows> Check(pg_result* result);
  // What follows from a wait; OK if it has come to its end.
  absl::Status CheckWait(Waited waited);
  absl::Status StatusOf(const char* state, std::string_view message, std::string_view constraint);
  absl::StatusOr<int64_t> Visit(std::string_view sql, std::initializer_list<SqlValue> values,
                                const Visitor& visit) override;

  pg_conn* const connection_;
  const std::string server_;
  Wire wire_;
  std::unordered_map<std::string, std::string> prepared_;  // text to name
  Backend backend_;
  std::string database_;
  Failure last_failure_ = Failure::kNone;
  bool is_broken_ = false;
};

}  // namespace tunefarm::postgres
