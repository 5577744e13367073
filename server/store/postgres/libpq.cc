#include "server/store/postgres/libpq.h"

#include <dlfcn.h>
#include <libpq-fe.h>

#include <array>
#include <atomic>
#include <string_view>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

// Parameters with their types, then as arguments.
#define LIBPQ_FUNCTIONS(F)                                                                                \
  F(PQbackendPID, int, (const PGconn* a), (a))                                                            \
  F(PQclear, void, (PGresult * a), (a))                                                                   \
  F(PQcmdStatus, char*, (PGresult * a), (a))                                                              \
  F(PQcmdTuples, char*, (PGresult * a), (a))                                                              \
  F(PQconnectPoll, PostgresPollingStatusType, (PGconn * a), (a))                                          \
  F(PQconnectStartParams, PGconn*, (const char* const* a, const char* const* b, int c), (a, b, c))        \
  F(PQconnectdb, PGconn*, (const char* a), (a))                                                           \
  F(PQconnectionNeedsPassword, int, (const PGconn* a), (a))                                               \
  F(PQconninfoFree, void, (PQconninfoOption * a), (a))                                                    \
  F(PQconninfoParse, PQconninfoOption*, (const char* a, char** b), (a, b))                                \
  F(PQconsumeInput, int, (PGconn * a), (a))                                                               \
  F(PQerrorMessage, char*, (const PGconn* a), (a))                                                        \
  F(PQexec, PGresult*, (PGconn * a, const char* b), (a, b))                                               \
  F(PQfinish, void, (PGconn * a), (a))                                                                    \
  F(PQflush, int, (PGconn * a), (a))                                                                      \
  F(PQfreemem, void, (void* a), (a))                                                                      \
  F(PQgetResult, PGresult*, (PGconn * a), (a))                                                            \
  F(PQgetisnull, int, (const PGresult* a, int b, int c), (a, b, c))                                       \
  F(PQgetlength, int, (const PGresult* a, int b, int c), (a, b, c))                                       \
  F(PQgetvalue, char*, (const PGresult* a, int b, int c), (a, b, c))                                      \
  F(PQisBusy, int, (PGconn * a), (a))                                                                     \
  F(PQntuples, int, (const PGresult* a), (a))                                                             \
  F(PQping, PGPing, (const char* a), (a))                                                                 \
  F(PQputCopyData, int, (PGconn * a, const char* b, int c), (a, b, c))                                    \
  F(PQputCopyEnd, int, (PGconn * a, const char* b), (a, b))                                               \
  F(PQresultErrorField, char*, (const PGresult* a, int b), (a, b))                                        \
  F(PQresultStatus, ExecStatusType, (const PGresult* a), (a))                                             \
  F(PQsendPrepare, int, (PGconn * a, const char* b, const char* c, int d, const Oid* e), (a, b, c, d, e)) \
  F(PQsendQuery, int, (PGconn * a, const char* b), (a, b))                                                \
  F(PQsendQueryPrepared, int,                                                                             \
    (PGconn * a, const char* b, int c, const char* const* d, const int* e, const int* f, int g),          \
    (a, b, c, d, e, f, g))                                                                                \
  F(PQsetNoticeReceiver, PQnoticeReceiver, (PGconn * a, PQnoticeReceiver b, void* c), (a, b, c))          \
  F(PQsetnonblocking, int, (PGconn * a, int b), (a, b))                                                   \
  F(PQsocket, int, (const PGconn* a), (a))                                                                \
  F(PQstatus, ConnStatusType, (const PGconn* a), (a))

namespace tunefarm::postgres {
namespace {

enum Function {
#define F(name, result, parameters, arguments) k##name,
  LIBPQ_FUNCTIONS(F)
#undef F
      kFunctions
};

constexpr std::array<const char*, kFunctions> kNames = {
#define F(name, result, parameters, arguments) #name,
    LIBPQ_FUNCTIONS(F)
#undef F
};

using Table = std::array<void*, kFunctions>;

std::atomic<const Table*> loaded{nullptr};

template <typename Pointer>
Pointer Loaded(Function function) {
  const Table* const table = loaded.load(std::memory_order_acquire);
  TUNEFARM_CHECK(table != nullptr);  // LoadLibpq comes first.
  return reinterpret_cast<Pointer>((*table)[function]);
}

}  // namespace

absl::Status LoadLibpq(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return FailedPrecondition("PostgreSQL's client library is missing ({}); install libpq5", dlerror());
  }
  Table table;
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = dlsym(library, kNames[i]);
    if (table[i] == nullptr) {
      return FailedPrecondition("{} has no function {}; install libpq5 of PostgreSQL 14 or newer", name, kNames[i]);
    }
  }
  if (loaded.load(std::memory_order_acquire) != nullptr) return absl::OkStatus();
  const Table* expected = nullptr;
  // Never freed, as libraries are never closed.
  const Table* const made = new Table(table);
  if (!loaded.compare_exchange_strong(expected, made)) delete made;
  return absl::OkStatus();
}

}  // namespace tunefarm::postgres

extern "C" {
#define F(name, result, parameters, arguments)                                                   \
  result name parameters {                                                                       \
    return tunefarm::postgres::Loaded<decltype(&::name)>(tunefarm::postgres::k##name) arguments; \
  }
LIBPQ_FUNCTIONS(F)
#undef F
}
