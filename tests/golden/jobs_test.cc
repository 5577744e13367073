#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "server/base/file.h"
#include "server/base/thread.h"
#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

TEST(TuneTest, OffATerminal) {
  CommandLine cli;
  EXPECT_EQ(cli.Record({"tune", "scale_host", "--dim", "N=1048576"}).code, 0);
  cli.Record({"tune", "scale_host", "--quiet", "--rows", "1"});
  cli.Record({"--output", "csv", "tune", "scale_host", "-q"});
  cli.ExpectMatches("tune");
}

TEST(TuneTest, OnATerminal) {
  CommandLine cli;
  cli.Record({"tune", "scale_host"}, {.err = true, .color = true});
  cli.Comment("--no-color wins over the terminal");
  cli.Record({"tune", "scale_host", "--no-color", "--quiet"}, {.err = true, .color = true});
  cli.ExpectMatches("tune_on_a_terminal");
}

TEST(TuneTest, NoValidConfig) {
  CommandLine cli;
  EXPECT_EQ(cli.Record({"tune", "faulty"}).code, 5);
  cli.ExpectMatches("tune_without_a_valid_config");
}

TEST(TuneTest, SendsWhatTheCommandLineSays) {
  CommandLine cli;
  cli.Run({"submit",
           "--dim",
           "N=64,128",
           "scale_host",
           "--pin",
           "UNROLL=4",
           "--device",
           "host",
           "--strategy",
           "random",
           "--seed",
           "7",
           "--max-trials",
           "9",
           "--policy",
           "fast",
           "--label",
           "x",
           "--strategy-option",
           "a=b",
           "--objective",
           "energy_delay"});
  const v1::CreateJobRequest request = cli.daemon()->last_create_job();
  EXPECT_EQ(request.kernel_definition().display_name(), "scale_host");
  EXPECT_FALSE(request.kernel_definition().sources(0).content().empty());
  ASSERT_EQ(request.job().problems_size(), 2);
  EXPECT_EQ(request.job().problems(1).dims().at("N").int_value(), 128);
  EXPECT_EQ(request.job().problems(1).pinned().at("UNROLL").int_value(), 4);
  EXPECT_EQ(request.job().device_selector(), "host");
  EXPECT_EQ(request.job().strategy().strategy_name(), "random");
  EXPECT_EQ(request.job().strategy().seed(), 7u);
  EXPECT_EQ(request.job().strategy().options().at("a"), "b");
  EXPECT_EQ(request.job().budget().max_trials(), 9);
  EXPECT_EQ(request.job().policy().preset(), v1::MEASUREMENT_PRESET_FAST);
  EXPECT_EQ(request.job().label(), "x");
  EXPECT_EQ(request.job().objective(), v1::OBJECTIVE_ENERGY_DELAY);
  EXPECT_EQ(request.request_id().size(), 36u);
}

TEST(TuneTest, SubmitAndRun) {
  CommandLine cli;
  cli.Record({"submit", "scale_host"});
  cli.Record({"submit", "scale_host", "--dim", "N=1048576,4096", "--quiet"});
  cli.Record({"run", "scale_host", "--dim", "N=1048576", "CHUNK=256", "UNROLL=1"});
  EXPECT_EQ(cli.daemon()->last_create_job().job().problems(0).pinned().at("CHUNK").int_value(), 256);
  EXPECT_EQ(cli.daemon()->last_create_job().job().budget().max_trials(), 1);
  cli.Comment("A config that fails explains itself.");
  EXPECT_EQ(cli.Record({"run", "faulty"}).code, 5);
  cli.ExpectMatches("submit_and_run");
}

TEST(TuneTest, StrategiesAreExplainedAndCompleted) {
  CommandLine cli;
  cli.Record({"help", "strategies"});
  EXPECT_EQ(cli.Record({"help", "strategis"}).code, 2);
  cli.Comment("Completion");
  cli.Record({"__complete", "help", "st"});
  cli.Record({"__complete", "tune", "--strategy", ""});
  EXPECT_EQ(cli.Run({"__complete", "tune", "scale_host", "--dim", ""}).out, "N=\n");
  EXPECT_EQ(cli.Run({"__complete", "tune", "scale_host", "--pin", "U"}).out, "UNROLL=\n");
  EXPECT_EQ(cli.Run({"__complete", "tune", "stored", "--dim", ""}).out, "");
  EXPECT_EQ(cli.Run({"__complete", "dashboard", "--role", ""}).out, "lookup\nsubmit\nadmin\n");
  EXPECT_EQ(cli.Run({"__complete", "token", "create", "--role", ""}).out, "lookup\nsubmit\nkernels\nadmin\n");
  EXPECT_EQ(cli.Run({"__complete", "certs", "issue", "--role", "a"}).out, "agent\nadmin\n");
  cli.Record({"__complete", "results", "17", "--"});
  cli.Record({"__complete", "results", "17", "--plot", ""});
  cli.Record({"__complete", "results", "17", "--output", "c"});
  cli.ExpectMatches("strategies");
}

TEST(JobsTest, ListAndShow) {
  CommandLine cli;
  EXPECT_EQ(cli.Run({"jobs"}).out, cli.Run({"jobs", "list"}).out);
  cli.Record({"jobs", "list"});
  cli.Record({"jobs", "list", "--limit", "2"});
  cli.Record({"jobs", "list", "--kernel", "scale_host", "--label", "nightly"});
  cli.Record({"jobs", "list", "--label", "weekly"});
  cli.Record({"jobs", "list", "--output", "csv"});
  cli.Record({"jobs", "list", "--output", "json", "--limit", "1"});
  for (const char* job : {"17", "jobs/18", "19", "20"}) cli.Record({"jobs", "show", job});
  cli.Comment("The best of before stays, though another config had the least time of the final.");
  cli.Record({"jobs", "show", "24"});
  cli.Comment("Cancelled in the middle of its final.");
  cli.Record({"jobs", "show", "26"});
  cli.Record({"jobs", "show", "404"});
  cli.Record({"jobs", "show", "seventeen"});
  cli.ExpectMatches("jobs");
}

TEST(JobsTest, Changes) {
  CommandLine cli;
  cli.Record({"jobs", "pause", "18"});
  cli.Record({"jobs", "resume", "18"});
  cli.Record({"jobs", "cancel", "18"});
  cli.Comment("On a terminal it asks.");
  cli.Record({"jobs", "cancel", "18"}, {.in = true, .err = true, .answer = "n\n"});
  cli.Record({"jobs", "cancel", "18"}, {.in = true, .err = true, .answer = "yes\n"});
  cli.Record({"jobs", "cancel", "18", "--yes"}, {.in = true, .err = true, .answer = "n\n"});
  cli.Record({"jobs", "delete", "17"});
  cli.ExpectMatches("jobs_changes");
}

TEST(JobsTest, Watch) {
  CommandLine cli;
  cli.Record({"jobs", "watch", "17"});
  cli.Record({"jobs", "watch", "19"});
  cli.Record({"jobs", "watch", "20"});
  cli.Record({"jobs", "watch", "404"});
  cli.Comment("The stream breaks off after its first event, and goes on.");
  cli.Record({"jobs", "watch", "22"});
  // A cancelled job says where what it found is.
  const Result cancelled = cli.Run({"jobs", "watch", "26"});
  EXPECT_EQ(cancelled.code, 1);
  EXPECT_NE(cancelled.err.find("Best so far of N=1048576: "), std::string::npos) << cancelled.err;
  EXPECT_NE(cancelled.err.find("All it found: tunefarm results 26"), std::string::npos) << cancelled.err;
  cli.ExpectMatches("jobs_watch");
}

TEST(JobsTest, InterruptDetaches) {
  CommandLine cli;
  Thread interrupter("interrupter", [&cli] {
    cli.daemon()->watch_is_blocked()->WaitForNotification();
    kill(getpid(), SIGINT);
  });
  EXPECT_EQ(cli.Record({"tune", "scale_host", "--label", "endless"}).code, 130);
  cli.ExpectMatches("tune_interrupted");
}

TEST(JobsTest, ASecondInterruptCancels) {
  CommandLine cli;
  // Signals of one number that wait together are one: they come until both have been seen, and none may end the test.
  const auto before = signal(SIGINT, SIG_IGN);
  Notification has_ended;
  Result result;
  {
    Thread interrupter("interrupter", [&] {
      cli.daemon()->watch_is_blocked()->WaitForNotification();
      do {
        kill(getpid(), SIGINT);
      } while (!has_ended.WaitFor(std::chrono::milliseconds(10)));
    });
    result = cli.Run({"tune", "scale_host", "--label", "endless"}, {.err = true});
    has_ended.Notify();
  }
  signal(SIGINT, before);
  EXPECT_EQ(result.code, 130);
  EXPECT_NE(result.err.find("Detached; job 21 continues."), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("Job 21 is cancelled"), std::string::npos) << result.err;
}

TEST(ResultsTest, Formats) {
  CommandLine cli;
  cli.Record({"results", "17"});
  cli.Record({"results", "17", "--rows", "1"});
  cli.Record({"results", "17", "--all"});
  cli.Record({"results", "17", "--all", "--output", "csv"});
  cli.Record({"results", "18"});
  cli.Record({"results", "18", "--all"});
  cli.Record({"results", "19"});
  cli.Record({"results", "19", "--all"}, {.color = true});
  cli.Record({"results", "19", "--output", "json"});
  cli.Comment("The best of before stays.");
  cli.Record({"results", "24"});
  cli.Comment("The winner of both finals.");
  cli.Record({"results", "25"});
  EXPECT_EQ(cli.Run({"results"}).out, cli.Run({"results", "20"}).out);
  cli.Record({"results", "404"});
  cli.ExpectMatches("results");
}

TEST(ResultsTest, Energies) {
  CommandLine cli;
  cli.Record({"results", "28"});
  cli.Record({"results", "28", "--all", "--output", "csv"});
  cli.Record({"export", "t4", "28", "--finals"});
  cli.Comment("The energies of finalists beside the times of the search.");
  cli.Record({"export", "t4", "28"});
  cli.ExpectMatches("results_energies");
}

TEST(ResultsTest, Analysis) {
  CommandLine cli;
  cli.Record({"results", "23", "--analyze"});
  cli.Record({"results", "23", "--analyze", "--output", "csv"});
  cli.Record({"results", "17", "--analyze"});
  cli.Record({"results", "17", "--analyze", "--output", "json"});
  cli.Comment("Two studies, the second has no trials yet.");
  cli.Record({"results", "18", "--analyze"});
  cli.Comment("Nothing was measured.");
  cli.Record({"results", "19", "--analyze"});
  EXPECT_EQ(cli.Record({"results", "18", "--analyze", "--study", "3"}).code, 3);
  EXPECT_EQ(cli.Record({"results", "18", "--study", "1"}).code, 2);
  cli.Comment("What would be left out of account is refused.");
  EXPECT_EQ(cli.Record({"results", "18", "--all", "--analyze"}).code, 2);
  EXPECT_EQ(cli.Record({"results", "18", "--analyze", "--rows", "3"}).code, 2);
  EXPECT_EQ(cli.Record({"results", "18", "--all", "--plot", "p.svg"}).code, 2);
  EXPECT_EQ(cli.Record({"results", "18", "--rows", "3", "--plot", "p.svg"}).code, 2);
  EXPECT_EQ(cli.Record({"results", "18", "--seed", "3"}).code, 2);
  EXPECT_EQ(cli.Record({"results", "18", "--plot", "p.svg", "--output", "csv"}).code, 2);
  cli.ExpectMatches("results_analysis");
}

TEST(ResultsTest, Plots) {
  CommandLine cli;
  const std::string file = cli.directory().path() + "/plot.svg";
  const auto plot = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--plot", file});
    EXPECT_EQ(cli.Run(words).code, 0);
    return *ReadFile(file, 1 << 20);
  };
  ExpectEqualsFile("plot_of_a_search.svg", plot({"results", "23"}));
  ExpectEqualsFile("plot_of_two_studies.svg", plot({"results", "18"}));
  ExpectEqualsFile("plot_without_a_time.svg", plot({"results", "19"}));
  ExpectEqualsFile("plot_with_energies.svg", plot({"results", "28"}));
  EXPECT_EQ(plot({"results", "23"}), plot({"results", "23", "--quiet"})) << "the same data, the same bytes";
  EXPECT_NE(cli.Run({"results", "23", "--plot", "/nowhere/plot.svg"}).code, 0);
}

}  // namespace
}  // namespace tunefarm::golden
