#include "server/store/postgres/session.h"

#include <fmt/core.h>
#include <libpq-fe.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_split.h"
#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::postgres {
namespace {

constexpr int kBinaryResults = 1;
// Beyond a statement's own timeout: for the way, and for a server that has much to do.
constexpr Duration kAnswerMax = std::chrono::seconds(5);

// What libpq says ends with a newline, and may have several lines.
std::string OneLine(const char* text) {
  std::string line(text == nullptr ? "" : text);
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  for (char& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return line;
}

bool IsOneOf(std::string_view state, std::initializer_list<std::string_view> states) {
  for (const std::string_view one : states) {
    if (state.substr(0, one.size()) == one) return true;
  }
  return false;
}

uint64_t BigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

int64_t SignedBigEndian(std::string_view bytes) {
  switch (bytes.size()) {
    case 2:
      return static_cast<int16_t>(BigEndian(bytes));
    case 4:
      return static_cast<int32_t>(BigEndian(bytes));
    default:
      return static_cast<int64_t>(BigEndian(bytes));
  }
}

// Notices are for people at a terminal.
void IgnoreNotice(void* /*context*/, const PGresult* /*result*/) {}

}  // namespace

bool Row::IsNull(int column) const { return PQgetisnull(result_, row_, column) != 0; }
std::string_view Row::View(int column) const {
  return {PQgetvalue(result_, row_, column), static_cast<size_t>(PQgetlength(result_, row_, column))};
}
int64_t Row::Int(int column) const { return SignedBigEndian(View(column)); }
double Row::Real(int column) const {
  const std::string_view bytes = View(column);
  if (bytes.size() != sizeof(double)) return 0;
  const uint64_t bits = BigEndian(bytes);
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
std::string Row::Bytes(int column) const { return std::string(View(column)); }
std::vector<int64_t> Row::Ints(int column) const {
  std::vector<int64_t> values;
  std::string_view bytes = View(column);
  constexpr size_t kHeader = 20, kElement = 12;
  if (bytes.size() < kHeader) return values;
  for (bytes.remove_prefix(kHeader); bytes.size() >= kElement; bytes.remove_prefix(kElement)) {
    values.push_back(SignedBigEndian(bytes.substr(4, 8)));
  }
  return values;
}

int Rows::size() const { return PQntuples(result_.get()); }
int64_t Rows::changes() const {
  const std::string text = PQcmdTuples(result_.get());
  int64_t value = 0;
  for (const char digit : text) value = value * 10 + (digit - '0');
  return value;
}
bool Rows::is_rollback() const { return std::string_view(PQcmdStatus(result_.get())) == "ROLLBACK"; }
void Rows::Clear::operator()(pg_result* result) const { PQclear(result); }

absl::StatusOr<std::string> DescribeUrl(const std::string& url) {
  char* error = nullptr;
  // Its message would repeat the text, and the password with it.
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), &error);
  PQfreemem(error);
  if (options == nullptr || (url.rfind("postgres://", 0) != 0 && url.rfind("postgresql://", 0) != 0)) {
    PQconninfoFree(options);
    return InvalidArgument("the store's URL cannot be understood; write postgres://USER@HOST:PORT/DATABASE");
  }
  std::string host, port, database, user;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    const std::string_view name = option->keyword;
    if (name == "host") host = option->val;
    if (name == "port") port = option->val;
    if (name == "dbname") database = option->val;
    if (name == "user") user = option->val;
  }
  PQconninfoFree(options);
  if (database.empty()) database = user;
  return fmt::format("PostgreSQL database \"{}\" on {}{}{}", database, host.empty() ? "this machine" : host,
                     port.empty() ? "" : ":", port);
}

Session::Session(pg_conn* connection, std::string server, const Patience& patience)
    : connection_(connection), server_(std::move(server)), wire_(connection, patience) {}

Session::~Session() { PQfinish(connection_); }

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const SessionOptions& options) {
  ASSIGN_OR_RETURN(const std::string server, DescribeUrl(options.url));
  absl::StatusOr<std::unique_ptr<Session>> session = absl::UnknownError("not tried");
  for (const Endpoint& endpoint : EndpointsOf(options.url)) {
    session = OpenAt(options, endpoint, server);
    if (session.ok()) break;
  }
  return session;
}

std::vector<Session::Endpoint> Session::EndpointsOf(const std::string& url) {
  // libpq tries one server after the other, but its calls that do not block have one time limit for all of them.
  std::string hosts, ports;
  bool has_addresses = false;
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), nullptr);
  for (const PQconninfoOption* option = options; option != nullptr && option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    const std::string_view name = option->keyword;
    if (name == "host") hosts = option->val;
    if (name == "port") ports = option->val;
    if (name == "hostaddr") has_addresses = true;
  }
  PQconninfoFree(options);
  const std::vector<std::string> host_list = absl::StrSplit(hosts, ','), port_list = absl::StrSplit(ports, ',');
  if (has_addresses || host_list.size() < 2 || (port_list.size() > 1 && port_list.size() != host_list.size())) {
    return {Endpoint{}};
  }
  std::vector<Endpoint> endpoints;
  for (size_t i = 0; i < host_list.size(); ++i) {
    endpoints.push_back({host_list[i], port_list[port_list.size() > 1 ? i : 0]});
  }
  return endpoints;
}

absl::StatusOr<std::unique_ptr<Session>> Session::OpenAt(const SessionOptions& options, const Endpoint& endpoint,
                                                         const std::string& server) {
  // A peer that has vanished is noticed within half a minute, with or without data on the way. What the URL says wins,
  // but for the one of its servers that is meant.
  const char* const keywords[] = {"fallback_application_name",
                                  "client_encoding",
                                  "keepalives",
                                  "keepalives_idle",
                                  "keepalives_interval",
                                  "keepalives_count",
                                  "tcp_user_timeout",
                                  "dbname",
                                  endpoint.host.empty() ? nullptr : "host",
                                  endpoint.port.empty() ? nullptr : "port",
                                  nullptr};
  const char* const values[] = {
      "tunefarmd",           "UTF8", "1", "10", "5", "4", "30000", options.url.c_str(), endpoint.host.c_str(),
      endpoint.port.c_str(), nullptr};
  Patience patience;
  patience.call_max = std::chrono::milliseconds(options.connect_timeout_ms);
  patience.silent_after = std::chrono::milliseconds(options.silent_after_ms);
  patience.presence = options.presence;
  std::unique_ptr<Session> session(new Session(PQconnectStartParams(keywords, values, 1), server, patience));
  PGconn* const connection = session->connection_;
  if (connection == nullptr) return ResourceExhausted("no memory for a connection to {}", server);
  RETURN_IF_ERROR(session->CheckWait(session->wire_.Connect()));
  if (PQstatus(connection) != CONNECTION_OK) {
    const std::string message = OneLine(PQerrorMessage(connection));
    // libpq tells no SQLSTATE of a connection that failed; the words are those of the server's language C.
    const bool is_refusal = PQconnectionNeedsPassword(connection) != 0 ||
                            message.find("authentication failed") != std::string::npos ||
                            message.find("does not exist") != std::string::npos ||
                            message.find("no pg_hba.conf entry") != std::string::npos;
    if (is_refusal && message.find("No such file") == std::string::npos) {
      return FailedPrecondition("{} does not let this program in: {}", session->server_, message);
    }
    return Unavailable("{} cannot be reached: {}", session->server_, message);
  }
  PQsetNoticeReceiver(connection, IgnoreNotice, nullptr);
  session->set_call_max(options.statement_timeout_ms > 0
                            ? std::chrono::milliseconds(options.statement_timeout_ms) + kAnswerMax
                            : Session::kLongCallMax);
  if (!options.is_probe) RETURN_IF_ERROR(session->SetUp(options));
  return session;
}

bool IsAnswering(const SessionOptions& options) {
  SessionOptions probe = options;
  probe.is_probe = true;
  probe.presence = nullptr;
  const auto session = Session::Open(probe);
  // A server that refuses says so itself.
  return session.ok() || absl::IsFailedPrecondition(session.status()) ||
         session.status().message().find("FATAL:") != std::string_view::npos;
}

absl::Status Session::SetUp(const SessionOptions& options) {
  // Whatever the server's own defaults are. Statements here find few rows by a key: a plan made for a table that was
  // empty then must not become a walk over a full one. Nor does a value change which plan is good, so none is made for
  // one: after each ANALYZE of a growing table, statements would be planned at every call until that looks dear again.
  RETURN_IF_ERROR(Script(
      fmt::format("SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; "
                  "SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; "
                  "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_mergejoin = off; "
                  "SET jit = off; SET plan_cache_mode = force_generic_plan; SELECT set_config('synchronous_commit', "
                  "'on', false) WHERE "
                  "current_setting('synchronous_commit') = 'off'",
                  options.statement_timeout_ms, options.lock_timeout_ms, options.idle_in_transaction_ms)));
  ASSIGN_OR_RETURN(backend_.started_at, QueryInt("SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM "
                                                 "pg_stat_activity WHERE pid = pg_backend_pid()"));
  backend_.pid = PQbackendPID(connection_);
  FindDatabase();
  return absl::OkStatus();
}

void Session::FindDatabase() {
  // A database that is restored gets another oid, its tables do so too where they are restored in place, and a server
  // that takes over begins a timeline (PostgreSQL's documentation, "Continuous Archiving", Timelines).
  const absl::StatusOr<Rows> rows = Query(
      "SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), (SELECT oid FROM pg_database WHERE "
      "datname = current_database()), to_regclass('lease')::oid, "
      "substr(pg_walfile_name(pg_current_wal_insert_lsn()), "
      "1, 8)) WHERE to_regclass('lease') IS NOT NULL AND NOT pg_is_in_recovery()");
  if (!rows.ok()) {
    LogDebug("store", "{} does not tell which database it has: {}", server_, MessageOf(rows.status()));
  } else if (!rows->empty()) {
    database_ = (*rows)[0].Bytes(0);
  }
}

absl::Status Session::StatusOf(const char* state_text, std::string_view message, std::string_view constraint) {
  const std::string_view state = state_text == nullptr ? "" : state_text;
  last_failure_ = Failure::kRefused;
  if (is_broken_ || IsOneOf(state, {"08", "57P01", "57P02", "57P03", "57P05", "25P03"})) {
    is_broken_ = true;
    last_failure_ = Failure::kConnection;
    return Unavailable("the connection to {} was lost: {}", server_, message);
  }
  if (IsOneOf(state, {"40001", "40P01"})) {
    last_failure_ = Failure::kConflict;
    return Unavailable("{}: {}; try again", server_, message);
  }
  // A prepared plan that no longer fits the tables, which a newer daemon has migrated: a new session has none.
  if (IsOneOf(state, {"0A000", "26000"}) && (state == "26000" || message.find("cached plan") != std::string::npos)) {
    is_broken_ = true;
    last_failure_ = Failure::kConnection;
    return Unavailable("{}: {}", server_, message);
  }
  if (IsOneOf(state, {"23505"}))
    return AlreadyExists("{}: a row with this key is stored already ({})", server_, constraint);
  if (IsOneOf(state, {"23503"})) {
    return NotFound("{}: the row refers to one that is not stored, or is referred to ({})", server_, constraint);
  }
  if (IsOneOf(state, {"23514", "23502"})) {
    return InvalidArgument("{}: the value is outside its limits ({})", server_,
                           constraint.empty() ? message : constraint);
  }
  if (IsOneOf(state, {"22", "54"}))
    return InvalidArgument("{}: the value is outside its limits ({})", server_, message);
  if (IsOneOf(state, {"25006"})) {
    return Unavailable("{} is read-only: it may be a standby; name the primary server", server_);
  }
  if (IsOneOf(state, {"55P03"})) last_failure_ = Failure::kLockTimeout;
  if (IsOneOf(state, {"57014", "55P03"}))
    return Unavailable("{}: {}; the server is overloaded; try again", server_, message);
  if (IsOneOf(state, {"53", "58"})) return Unavailable("{}: {}; see to the server, then try again", server_, message);
  if (IsOneOf(state, {"XX001", "XX002"})) {
    return DataLoss("{} is damaged ({}); restore it from a backup", server_, message);
  }
  if (IsOneOf(state, {"42501"})) {
    return FailedPrecondition("{}: {}; let its owner GRANT this user the right", server_, message);
  }
  return Internal("{}: {} (SQLSTATE {})", server_, message, state);
}

absl::StatusOr<Rows> Session::Check(pg_result* result) {
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY) {
    last_failure_ = Failure::kNone;
    return Rows(result);
  }
  if (PQstatus(connection_) != CONNECTION_OK) is_broken_ = true;
  // The primary message alone: its details may hold the row.
  const char* primary = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string message = OneLine(primary != nullptr ? primary : PQerrorMessage(connection_));
  const char* constraint = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
  const absl::Status failed = StatusOf(result == nullptr ? "08006" : PQresultErrorField(result, PG_DIAG_SQLSTATE),
                                       message, constraint == nullptr ? "" : constraint);
  PQclear(result);
  return failed;
}

absl::Status Session::CheckWait(Waited waited) {
  if (waited == Waited::kAnswered) return absl::OkStatus();
  is_broken_ = true;
  last_failure_ = Failure::kSilence;
  if (waited == Waited::kAway) return Unavailable("{} does not answer; try again", server_);
  return Unavailable("{} has taken too long to answer, and the connection was given up; try again", server_);
}

absl::StatusOr<Rows> Session::Answer(int was_sent) {
  PGresult* result = nullptr;
  if (was_sent != 0) RETURN_IF_ERROR(CheckWait(wire_.Finish(&result)));
  return Check(result);
}

absl::Status Session::Prepare(std::string_view sql, const Parameters& parameters, const char** name) {
  std::string& prepared = prepared_[std::string(sql)];
  if (prepared.empty()) {
    std::string fresh = fmt::format("s{}", prepared_.size());
    const absl::Status status = Answer(PQsendPrepare(connection_, fresh.c_str(), std::string(sql).c_str(),
                                                     parameters.count(), parameters.types()))
                                    .status();
    if (!status.ok()) {
      prepared_.erase(std::string(sql));
      return status;
    }
    prepared = std::move(fresh);
  }
  *name = prepared.c_str();
  return absl::OkStatus();
}

absl::StatusOr<Rows> Session::Execute(std::string_view sql, const Parameters& parameters) {
  if (is_broken_) return Unavailable("the connection to {} was lost", server_);
  const char* name = nullptr;
  RETURN_IF_ERROR(Prepare(sql, parameters, &name));
  const std::vector<const char*> values = parameters.Values();
  return Answer(PQsendQueryPrepared(connection_, name, parameters.count(), values.data(), parameters.lengths(),
                                    parameters.formats(), kBinaryResults));
}

absl::Status Session::Script(const std::string& sql) {
  if (is_broken_) return Unavailable("the connection to {} was lost", server_);
  return Answer(PQsendQuery(connection_, sql.c_str())).status();
}

absl::Status Session::BeginCopy(const std::string& sql) {
  PGresult* result = nullptr;
  if (PQsendQuery(connection_, sql.c_str()) != 0) RETURN_IF_ERROR(CheckWait(wire_.Finish(&result)));
  if (PQresultStatus(result) != PGRES_COPY_IN) return Check(result).status();
  PQclear(result);
  return absl::OkStatus();
}

absl::Status Session::PutCopy(std::string_view bytes) {
  bool is_refused = false;
  RETURN_IF_ERROR(CheckWait(wire_.PutCopy(bytes, &is_refused)));
  return is_refused ? EndCopy() : absl::OkStatus();
}

absl::Status Session::EndCopy() {
  // Refused after an error of the server, whose words are what is waited for.
  PQputCopyEnd(connection_, nullptr);
  return Answer(1).status();
}

absl::Status Session::Begin() { return Script("BEGIN"); }
absl::Status Session::BeginSnapshot() { return Script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); }

absl::StatusOr<int64_t> Session::TransactionId() {
  ASSIGN_OR_RETURN(const Rows rows, Query("SELECT coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0)"));
  return rows[0].Int(0);
}

absl::Status Session::Commit() {
  ASSIGN_OR_RETURN(const Rows rows, Answer(PQsendQuery(connection_, "COMMIT")));
  // A transaction in which a statement has failed ends in this way without an error.
  return rows.is_rollback() ? Internal("{}: a failed transaction was to be committed", server_) : absl::OkStatus();
}

void Session::Rollback() {
  if (is_broken_) return;
  const Failure before = last_failure_;
  const absl::Status status = Script("ROLLBACK");
  if (status.ok()) last_failure_ = before;
}

absl::StatusOr<int64_t> Session::Visit(std::string_view sql, std::initializer_list<SqlValue> values,
                                       const Visitor& visit) {
  ASSIGN_OR_RETURN(const Rows rows, Execute(sql, Parameters(values)));
  for (int i = 0; visit != nullptr && i < rows.size(); ++i) visit(rows[i]);
  return rows.changes();
}

}  // namespace tunefarm::postgres
