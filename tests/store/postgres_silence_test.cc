// What a PostgreSQL store does when the server stands still: connections stay open, and nothing is answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <functional>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/store/kernel_store.h"
#include "server/store/postgres/open.h"
#include "server/store/postgres/pool.h"
#include "server/store/postgres/presence.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "tests/fakes/postgres_server.h"
#include "tests/store/conformance.h"
#include "tests/store/cutting_proxy.h"

namespace tunefarm {
namespace {

using postgres::Pool;
using postgres::Presence;
using postgres::Session;
using testing::HasSubstr;
using testing::Not;

constexpr char kNotMade[] = "this call was not made";

std::string UrlThrough(const CuttingProxy& proxy, const std::string& database) {
  std::string host;
  for (const char c : proxy.socket_directory()) host += c == '/' ? "%2F" : std::string(1, c);
  return "postgres://tunefarm:s3cret@" + host + "/" + database;
}

// Fails when the program's time is over.
void Await(const std::function<bool()>& condition) {
  const Notification never;
  while (!condition()) never.WaitFor(std::chrono::milliseconds(10));
}

class PostgresSilence : public testing::Test {
 protected:
  PostgresSilence() : server_(PostgresServer::Shared()), database_(server_->NewDatabase()) {}
  ~PostgresSilence() override {
    server_->Thaw();
    server_->DropDatabase(database_);
  }

  // Far above what an answer takes, and far below a test's patience.
  static PostgresOptions Impatient(const std::string& url) {
    PostgresOptions options;
    options.url = url;
    options.silent_after_ms = 500;
    options.probe_ms = 2000;
    return options;
  }
  // With a table of numbers.
  std::unique_ptr<Pool> OpenPool(const PostgresOptions& options) {
    server_->Sql(database_, "CREATE TABLE number (n bigint)");
    return std::make_unique<Pool>(postgres::ToSessionOptions(options), 4, Clock::Real(), EntropySource::Real());
  }
  static absl::Status Insert(Session& session) { return session.Run("INSERT INTO number VALUES (1)"); }
  std::string Numbers() { return server_->Sql(database_, "SELECT count(*) FROM number"); }

  PostgresServer* const server_;
  const std::string database_;
};

TEST_F(PostgresSilence, AServerThatStandsStillIsAwayUntilItGoesOn) {
  auto opened = OpenPostgresStore(Impatient(server_->Url(database_)));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::unique_ptr<Store> store = *std::move(opened);
  ASSERT_TRUE(store->kernels()->PutKernel(MakeKernel("before")).ok());
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    const std::string late = "late-" + std::to_string(round);
    server_->Freeze();
    // The first finds it out.
    const absl::Status first = store->kernels()->PutKernel(MakeKernel(late));
    EXPECT_TRUE(absl::IsUnavailable(first)) << first;
    EXPECT_THAT(std::string(first.message()), HasSubstr("does not answer"));
    // And nobody after it waits.
    for (int i = 0; i < 20; ++i) {
      const absl::Status next =
          i % 2 == 0 ? store->kernels()->GetKernel("before").status() : store->kernels()->PutKernel(MakeKernel(late));
      EXPECT_TRUE(absl::IsUnavailable(next)) << next;
      EXPECT_THAT(std::string(next.message()), HasSubstr(kNotMade));
    }
    server_->Thaw();
    Await([&] { return store->kernels()->GetKernel("before").ok(); });
    EXPECT_TRUE(store->kernels()->PutKernel(MakeKernel(late)).ok());
    EXPECT_TRUE(store->kernels()->GetKernel(late).ok());
  }
}

TEST_F(PostgresSilence, CallsThatAreUnderWayAllEnd) {
  auto opened = OpenPostgresStore(Impatient(server_->Url(database_)));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::unique_ptr<Store> store = *std::move(opened);
  std::atomic<int> done{0}, refused{0};
  {
    std::atomic<bool> is_frozen{false};
    std::vector<Thread> callers;
    // More than there are connections, so that some wait for one.
    for (int i = 0; i < 24; ++i) {
      callers.emplace_back("caller", [&, i] {
        for (int k = 0;; ++k) {
          if (store->kernels()->PutKernel(MakeKernel(std::to_string(i) + "-" + std::to_string(k))).ok()) {
            ++done;
          } else if (is_frozen.load()) {
            ++refused;
            return;
          }
        }
      });
    }
    Await([&] { return done.load() > 100; });
    server_->Freeze();
    is_frozen.store(true);
    for (Thread& caller : callers) caller.Join();
  }
  EXPECT_EQ(refused.load(), 24);
  server_->Thaw();
  Await([&] { return store->maintenance()->CheckWritable().ok(); });
}

TEST_F(PostgresSilence, ACommitIntoSilenceIsUnknownAndNotRepeated) {
  CuttingProxy proxy(server_->socket_directory());
  const auto pool = OpenPool(Impatient(UrlThrough(proxy, database_)));
  int tries = 0;
  const auto insert = [&](Session& session) {
    ++tries;
    return Insert(session);
  };
  proxy.Arm(CuttingProxy::Cut::kStall, "COMMIT");
  const absl::Status unknown = pool->Write(insert);
  EXPECT_TRUE(absl::IsUnavailable(unknown)) << unknown;
  EXPECT_EQ(ReasonOf(unknown), "COMMIT_UNKNOWN");
  EXPECT_THAT(std::string(unknown.message()), Not(HasSubstr("s3cret")));
  EXPECT_EQ(tries, 1);
  // It has come through, as nobody could know.
  Await([&] { return Numbers() == "1"; });
  const absl::Status refused = pool->Write(insert);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(kNotMade));
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("s3cret")));
  EXPECT_EQ(tries, 1);
  proxy.Resume();
  Await([&] { return pool->Write(insert).ok(); });
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(Numbers(), "2");
}

TEST_F(PostgresSilence, ATransactionIntoSilenceIsUndone) {
  CuttingProxy proxy(server_->socket_directory());
  const auto pool = OpenPool(Impatient(UrlThrough(proxy, database_)));
  const absl::Status undone = pool->Write([&](Session& session) {
    const absl::Status status = Insert(session);
    proxy.Stall();
    return status;
  });
  EXPECT_TRUE(absl::IsUnavailable(undone)) << undone;
  EXPECT_EQ(ReasonOf(undone), "");
  proxy.Resume();
  Await([&] { return pool->Write(Insert).ok(); });
  EXPECT_EQ(Numbers(), "1");
}

TEST_F(PostgresSilence, AServerThatIsOnlySlowIsWaitedFor) {
  CuttingProxy proxy(server_->socket_directory());
  PostgresOptions options = Impatient(UrlThrough(proxy, database_));
  options.silent_after_ms = 20;
  options.probe_ms = 300'000;
  const auto pool = OpenPool(options);
  PGconn* const holder = PQconnectdb(server_->Url(database_).c_str());
  PQclear(PQexec(holder, "BEGIN"));
  PQclear(PQexec(holder, "LOCK TABLE number"));
  int tries = 0;
  Thread writer("writer", [&] {
    const absl::Status status = pool->Write([&](Session& session) {
      ++tries;
      return Insert(session);
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  // It has been asked again and again whether it is there.
  Await([&] { return proxy.connections() >= 5; });
  PQclear(PQexec(holder, "COMMIT"));
  PQfinish(holder);
  writer.Join();
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(Numbers(), "1");
}

TEST_F(PostgresSilence, AServerThatDoesNotAnswerAtTheStartIsUnavailable) {
  CuttingProxy proxy(server_->socket_directory());
  proxy.Stall();
  postgres::SessionOptions options = postgres::ToSessionOptions(Impatient(UrlThrough(proxy, database_)));
  options.connect_timeout_ms = 200;
  const absl::Status status = Session::Open(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("s3cret")));
  EXPECT_FALSE(postgres::IsAnswering(options));
  // A refusal is an answer.
  options.url = server_->Url("nowhere");
  options.connect_timeout_ms = 60'000;
  EXPECT_TRUE(postgres::IsAnswering(options));
}

TEST_F(PostgresSilence, ASecondServerOfTheUrlIsTriedWhenTheFirstStandsStill) {
  CuttingProxy proxy(server_->socket_directory());
  proxy.Stall();
  const std::string good = server_->socket_directory();
  postgres::SessionOptions options;
  options.url = "postgres://tunefarm@/" + database_ + "?host=" + proxy.socket_directory() + "," + good;
  options.connect_timeout_ms = 2000;
  const auto session = Session::Open(options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->QueryInt("SELECT 7::bigint").value(), 7);
}

TEST(PresenceTest, OneProbeAtATimeUntilItIsAnswered) {
  std::atomic<int> probes{0}, at_once{0}, at_once_max{0};
  std::atomic<bool> answers{false};
  Presence presence("the server", [&] {
    at_once_max.store(std::max(at_once_max.load(), ++at_once));
    ++probes;
    --at_once;
    return answers.load();
  });
  EXPECT_TRUE(presence.Check().ok());
  EXPECT_EQ(probes.load(), 0) << "nobody had a reason to ask";
  for (int i = 0; i < 100; ++i) presence.Suspect();
  Await([&] { return presence.is_away(); });
  EXPECT_TRUE(absl::IsUnavailable(presence.Check()));
  Await([&] { return probes.load() >= 2; });
  answers.store(true);
  Await([&] { return presence.Check().ok(); });
  EXPECT_EQ(at_once_max.load(), 1);
}

}  // namespace
}  // namespace tunefarm
