#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "server/base/thread.h"
#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

TEST(MissesTest, ListAndForget) {
  CommandLine cli;
  cli.Record({"misses"});
  cli.Record({"misses", "--limit", "3"});
  cli.Record({"misses", "scale_host", "--device", "Example CPU", "--output", "csv"});
  cli.Record({"misses", "faulty", "--output", "json"});
  cli.Comment("A class that is not here any more is named by its id.");
  cli.Record({"misses", "--device", "gpu-9"});
  cli.Record({"misses", "--device", "cuda"});
  cli.Record({"misses", "--clear"});
  cli.Record({"misses", "faulty", "--clear"});
  cli.Record({"misses", "--clear", "--output", "json"});
  cli.ExpectMatches("misses");
}

TEST(MissesTest, Tune) {
  CommandLine cli;
  cli.Comment("Job 17 is of scale_host, 19 of faulty.");
  EXPECT_EQ(cli.Record({"tune", "--misses"}).code, 5);
  EXPECT_EQ(cli.Record({"tune", "--misses", "scale_host", "--device", "host"}).code, 0);
  EXPECT_EQ(cli.Record({"tune", "--misses", "--limit", "1", "--output", "csv", "--quiet"}).code, 0);
  cli.Comment("Nothing to do");
  EXPECT_EQ(cli.Record({"tune", "--misses", "stored"}).code, 0);
  EXPECT_EQ(cli.Record({"tune", "--misses", "--device", "cuda", "--output", "json"}).code, 0);
  EXPECT_EQ(cli.Record({"tune", "gone", "--misses"}).code, 0);
  cli.Comment("Problems come from the list.");
  EXPECT_EQ(cli.Record({"tune", "--misses", "--dim", "N=4096"}).code, 2);
  EXPECT_EQ(cli.Record({"tune", "--misses", "--pin", "UNROLL=1"}).code, 2);
  EXPECT_EQ(cli.Record({"tune", "--misses", "--rows", "3"}).code, 2);
  EXPECT_EQ(cli.Record({"tune", "scale_host", "--limit", "3"}).code, 2);
  cli.ExpectMatches("tune_misses");
}

TEST(MissesTest, TuneSendsWhatWasAskedAndHowItIsToBeTuned) {
  CommandLine cli;
  EXPECT_EQ(cli.Run({"tune", "--misses", "--limit", "1", "--strategy", "random", "--label", "x"}).code, 0);
  v1::CreateJobRequest request = cli.daemon()->last_create_job();
  EXPECT_EQ(request.job().kernel(), "scale_host");
  EXPECT_FALSE(request.has_kernel_definition());
  EXPECT_FALSE(request.validate_only());
  EXPECT_EQ(request.job().device_selector(), "cpu-1");
  ASSERT_EQ(request.job().problems_size(), 1);
  EXPECT_EQ(request.job().problems(0).dims().at("N").int_value(), 4096);
  EXPECT_EQ(request.job().strategy().strategy_name(), "random");
  EXPECT_EQ(request.job().label(), "x");
  EXPECT_EQ(request.request_id().size(), 36u);
  // A kernel that is named is tuned by the definition that `tune` would take.
  EXPECT_EQ(cli.Run({"tune", "scale_host", "--misses", "--device", "host"}).code, 0);
  request = cli.daemon()->last_create_job();
  EXPECT_EQ(request.kernel_definition().display_name(), "scale_host");
  EXPECT_EQ(request.job().kernel(), "");
  EXPECT_EQ(request.job().device_selector(), "host");
}

TEST(MissesTest, InterruptDetaches) {
  CommandLine cli;
  Thread interrupter("interrupter", [&cli] {
    cli.daemon()->watch_is_blocked()->WaitForNotification();
    kill(getpid(), SIGINT);
  });
  EXPECT_EQ(cli.Record({"tune", "--misses", "--label", "endless"}).code, 130);
  cli.ExpectMatches("tune_misses_interrupted");
}

}  // namespace
}  // namespace tunefarm::golden
