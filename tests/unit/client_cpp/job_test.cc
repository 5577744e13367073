#include <gtest/gtest.h>

#include "tests/fakes/temporary_directory.h"
#include "tests/unit/client_cpp/fake_daemon.h"

namespace tunefarm::client {
namespace {

class JobTest : public testing::Test {
 protected:
  JobTest() : daemon_(&catalog_, directory_.File("s")), client_(*Client::Open(QuickOptions(daemon_))) {}

  static v1::JobEvent MessageEvent(const std::string& text) {
    v1::JobEvent event;
    event.set_message(text);
    return event;
  }

  TemporaryDirectory directory_;
  FakeCatalog catalog_;
  FakeDaemon daemon_;
  Client client_;
};

TEST_F(JobTest, CallsSayWhatTheDaemonSays) {
  daemon_.Start();
  JobSpec spec;
  spec.kernel = "matmul";
  spec.problems.resize(1);
  const auto job = client_.Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status().ToText();
  EXPECT_EQ(job->name, "jobs/1");
  EXPECT_EQ(job->state, JobState::kQueued);
  const auto got = client_.GetJob("jobs/1");
  EXPECT_EQ(got->state, JobState::kSucceeded);
  EXPECT_EQ(got->studies.at(0).best->config.Int("TILE"), 7);
  EXPECT_EQ(client_.GetJob("jobs/5").status().reason, "JOB_NOT_FOUND");
  const auto first = client_.ListJobs(1);
  EXPECT_EQ(first->jobs.at(0).name, "jobs/2");
  const auto second = client_.ListJobs(1, first->next_page_token);
  EXPECT_EQ(second->jobs.at(0).name, "jobs/1");
  EXPECT_TRUE(second->next_page_token.empty());
  EXPECT_EQ(client_.CancelJob("jobs/1").status().code, Code::kFailedPrecondition);
}

TEST_F(JobTest, ASubmitWhoseAnswerGotLostIsRepeatedUnderItsId) {
  daemon_.Start();
  daemon_.LoseNextSubmit();
  JobSpec spec;
  spec.kernel = "matmul";
  spec.problems.resize(1);
  EXPECT_TRUE(client_.Submit(spec).ok());
  const auto submitted = daemon_.submitted();
  ASSERT_EQ(submitted.size(), 2u);
  EXPECT_FALSE(submitted[0].request_id().empty());
  EXPECT_EQ(submitted[0].request_id(), submitted[1].request_id());
}

TEST_F(JobTest, AFrozenDaemonHoldsACallNoLongerThanItsDeadline) {
  daemon_.Start();
  daemon_.Freeze();
  EXPECT_EQ(client_.GetJob("jobs/1", std::chrono::milliseconds(20)).status().code, Code::kDeadlineExceeded);
}

TEST_F(JobTest, AWatchGoesOnAfterTheLastEventAndEndsWithTheJob) {
  daemon_.Start();
  v1::JobEvent snapshot;
  snapshot.mutable_job()->set_name("jobs/1");
  daemon_.AddJobEvent(snapshot);
  daemon_.AddJobEvent(MessageEvent("two"));
  Mutex mutex;
  std::vector<std::string> seen;
  Notification ended;
  const JobWatch watch = client_.WatchJob(
      "jobs/1",
      [&](const JobEvent& event) {
        MutexLock lock(&mutex);
        seen.push_back(event.job ? event.job->name : event.message);
      },
      [&](const Status& status) {
        EXPECT_TRUE(status.ok()) << status.ToText();
        ended.Notify();
      });
  const auto has_seen = [&](size_t count) {
    return Eventually([&] {
      MutexLock lock(&mutex);
      return seen.size() == count;
    });
  };
  EXPECT_TRUE(has_seen(2));
  daemon_.Kill();
  daemon_.AddJobEvent(MessageEvent("three"));
  daemon_.Start();
  EXPECT_TRUE(has_seen(3));
  daemon_.AddJobEvent(v1::JobEvent());
  ended.WaitForNotification();
  EXPECT_EQ(seen, (std::vector<std::string>{"jobs/1", "two", "three"}));
  EXPECT_EQ(daemon_.job_watches().back(), 2);
}

TEST_F(JobTest, TheDaemonMayBeAwayForAllThatTimeAfterAQuietStream) {
  constexpr std::chrono::milliseconds kMaxWait(4000), kQuiet(3500), kAway(1000);
  daemon_.Start();
  daemon_.AddJobEvent(MessageEvent("one"));
  std::atomic<int> events{0};
  Notification ended;
  const JobWatch watch = client_.WatchJob(
      "jobs/1", [&](const JobEvent&) { ++events; },
      [&](const Status& status) {
        EXPECT_TRUE(status.ok()) << status.ToText();
        ended.Notify();
      },
      0, kMaxWait);
  EXPECT_TRUE(Eventually([&] { return events == 1; }));
  Notification().WaitFor(kQuiet);
  daemon_.Kill();
  Notification().WaitFor(kAway);
  daemon_.AddJobEvent(v1::JobEvent());
  daemon_.Start();
  ended.WaitForNotification();
}

TEST_F(JobTest, WatchesOfNoJobAndOfNoDaemonEnd) {
  Notification lost;
  const JobWatch watch = client_.WatchJob(
      "jobs/1", [](const JobEvent&) {},
      [&](const Status& status) {
        EXPECT_EQ(status.reason, "WATCH_LOST");
        lost.Notify();
      },
      0, std::chrono::milliseconds(50));
  lost.WaitForNotification();
  daemon_.Start();
  EXPECT_EQ(client_.WaitForJob("jobs/9").status().reason, "JOB_NOT_FOUND");
}

TEST_F(JobTest, WaitingEndsWithTheJobTheDeadlineOrTheClient) {
  daemon_.Start();
  EXPECT_EQ(client_.WaitForJob("jobs/1", std::chrono::milliseconds(30)).status().reason, "JOB_RUNS");
  daemon_.AddJobEvent(v1::JobEvent());
  const auto job = client_.WaitForJob("jobs/1");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->state, JobState::kSucceeded);
  daemon_.Kill();
  Code code = Code::kOk;
  {
    Thread waiting("waiting", [&] { code = client_.WaitForJob("jobs/1").status().code; });
    Notification().WaitFor(std::chrono::milliseconds(20));  // right whether it is waiting yet or not
    client_.Close();
  }
  EXPECT_EQ(code, Code::kCancelled);
}

TEST_F(JobTest, AStoppedWatchCallsNobody) {
  daemon_.Start();
  std::atomic<int> events{0};
  JobWatch watch = client_.WatchJob(
      "jobs/1", [&](const JobEvent&) { ++events; }, [](const Status&) { ADD_FAILURE(); });
  daemon_.AddJobEvent(MessageEvent("one"));
  EXPECT_TRUE(Eventually([&] { return events == 1; }));
  watch.Stop();
  daemon_.AddJobEvent(MessageEvent("two"));
  daemon_.AddJobEvent(v1::JobEvent());
  EXPECT_EQ(client_.GetJob("jobs/1")->name, "jobs/1");
  EXPECT_EQ(events, 1);
}

}  // namespace
}  // namespace tunefarm::client
