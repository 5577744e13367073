#include "server/exec/outcome_table.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

using namespace tunefarm::v1;  // NOLINT(google-build-using-namespace)

struct Row {
  WorkerRole role;
  WorkerEndCause cause;
  Phase phase;
  ExitStatus status;
  Outcome outcome;
};

ExitStatus Code(int code) { return {true, code, 0}; }
ExitStatus Signal(int signal) { return {false, 0, signal}; }

TEST(OutcomeTable, EveryRow) {
  constexpr auto kRun = WorkerRole::kRun;
  constexpr auto kCompile = WorkerRole::kCompile;
  using Cause = WorkerEndCause;
  const Row rows[] = {
      {kRun, Cause::kExited, PHASE_FIRST_LAUNCH, Signal(SIGSEGV), OUTCOME_RUN_CRASH},
      {kRun, Cause::kExited, PHASE_LOAD, Signal(SIGBUS), OUTCOME_RUN_CRASH},
      {kRun, Cause::kExited, PHASE_MEASURE, Code(0), OUTCOME_RUN_CRASH},
      {kRun, Cause::kExited, PHASE_FIRST_LAUNCH, Code(42), OUTCOME_RUN_CRASH},
      {kRun, Cause::kExited, PHASE_MEASURE, Signal(SIGKILL), OUTCOME_OUT_OF_MEMORY},
      {kRun, Cause::kExited, PHASE_MEASURE, Code(kWorkerExitOutOfMemory), OUTCOME_OUT_OF_MEMORY},
      {kRun, Cause::kExited, PHASE_FIRST_LAUNCH, Signal(SIGSYS), OUTCOME_SANDBOX_VIOLATION},
      {kRun, Cause::kExited, PHASE_FIRST_LAUNCH, Signal(SIGXFSZ), OUTCOME_SANDBOX_VIOLATION},
      {kRun, Cause::kExited, PHASE_FIRST_LAUNCH, Signal(SIGXCPU), OUTCOME_RUN_TIMEOUT},
      {kRun, Cause::kExited, PHASE_COMPILE, Signal(SIGSEGV), OUTCOME_COMPILE_CRASH},
      {kRun, Cause::kExited, PHASE_UNSPECIFIED, Code(kWorkerExitProtocol), OUTCOME_LOST},
      {kRun, Cause::kDeadline, PHASE_FIRST_LAUNCH, {}, OUTCOME_RUN_TIMEOUT},
      {kRun, Cause::kDeadline, PHASE_COMPILE, {}, OUTCOME_COMPILE_TIMEOUT},
      {kRun, Cause::kProtocol, PHASE_MEASURE, {}, OUTCOME_RUN_CRASH},
      {kRun, Cause::kCancelled, PHASE_MEASURE, {}, OUTCOME_LOST},
      {kRun, Cause::kShutdown, PHASE_MEASURE, {}, OUTCOME_LOST},
      {kRun, Cause::kStartFailed, PHASE_UNSPECIFIED, {}, OUTCOME_LOST},
      {kCompile, Cause::kExited, PHASE_COMPILE, Signal(SIGSEGV), OUTCOME_COMPILE_CRASH},
      {kCompile, Cause::kExited, PHASE_UNSPECIFIED, Code(1), OUTCOME_COMPILE_CRASH},
      {kCompile, Cause::kExited, PHASE_COMPILE, Signal(SIGKILL), OUTCOME_OUT_OF_MEMORY},
      {kCompile, Cause::kExited, PHASE_COMPILE, Signal(SIGXCPU), OUTCOME_COMPILE_TIMEOUT},
      {kCompile, Cause::kDeadline, PHASE_UNSPECIFIED, {}, OUTCOME_COMPILE_TIMEOUT},
      {kCompile, Cause::kProtocol, PHASE_COMPILE, {}, OUTCOME_COMPILE_CRASH},
  };
  for (const Row& row : rows) {
    WorkerEnd end;
    end.role = row.role;
    end.cause = row.cause;
    end.phase = row.phase;
    end.status = row.status;
    end.detail = "detail";
    const Verdict verdict = VerdictFor(end);
    EXPECT_EQ(verdict.outcome, row.outcome) << (&row - rows) << ": " << verdict.message;
    EXPECT_FALSE(verdict.message.empty());
  }
}

TEST(OutcomeTable, AKillFromOutsideSaysNothingAboutTheConfig) {
  WorkerEnd end;
  end.phase = PHASE_MEASURE;
  end.status = Signal(SIGKILL);
  EXPECT_TRUE(IsKilledFromOutside(end)) << "nothing is known of the out-of-memory killer";
  end.memory_kills = MemoryKills::kSome;
  EXPECT_FALSE(IsKilledFromOutside(end));
  EXPECT_EQ(VerdictFor(end).outcome, OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(VerdictFor(end).message, "the system killed the worker during measuring because memory ran out");
  end.memory_kills = MemoryKills::kNone;
  EXPECT_TRUE(IsKilledFromOutside(end));
  EXPECT_EQ(VerdictFor(end).outcome, OUTCOME_RUN_CRASH);
  end.role = WorkerRole::kCompile;
  EXPECT_EQ(VerdictFor(end).outcome, OUTCOME_COMPILE_CRASH);
  // Other signals, and the daemon's own kills.
  end.cause = WorkerEndCause::kDeadline;
  EXPECT_FALSE(IsKilledFromOutside(end));
  end.cause = WorkerEndCause::kExited;
  end.status = Signal(SIGTERM);
  EXPECT_FALSE(IsKilledFromOutside(end));
}

TEST(OutcomeTable, ADeadlineNamesTheSettingThatRaisesIt) {
  WorkerEnd end;
  end.role = WorkerRole::kRun;
  end.cause = WorkerEndCause::kDeadline;
  end.deadline_ms = 50;
  end.phase = PHASE_FIRST_LAUNCH;
  EXPECT_EQ(VerdictFor(end).message,
            "the first launch did not finish within 50.0 ms (launch_timeout_ms of the daemon raises this)");
  end.phase = PHASE_COMPILE;
  EXPECT_EQ(VerdictFor(end).message,
            "compiling did not finish within 50.0 ms (compile_timeout_ms of the daemon raises this)");
  end.phase = PHASE_LOAD;
  EXPECT_EQ(VerdictFor(end).message, "loading the binary did not finish within 50.0 ms");
  end.preparing = true;
  EXPECT_EQ(VerdictFor(end).message,
            "building the inputs and the reference output did not finish within 50.0 ms (prepare_timeout_ms of the "
            "daemon raises this)");
}

TEST(OutcomeTable, SaysWhenSigkillDidNotHelp) {
  WorkerEnd end;
  end.cause = WorkerEndCause::kDeadline;
  end.phase = PHASE_MEASURE;
  end.deadline_ms = 1500;
  end.unkillable = true;
  EXPECT_EQ(VerdictFor(end).message,
            "measuring did not finish within 1.50 s (launch_timeout_ms of the daemon raises this); the worker does not "
            "end after SIGKILL, so its device is out of service");
}

}  // namespace
}  // namespace tunefarm
