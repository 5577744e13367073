// A worker with the real sandbox and the real conversation around backends that misbehave as the parameter `behave` of
// the config asks. What honest code cannot send is written to the channel by hand.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "server/base/status.h"
#include "server/exec/channel.h"
#include "server/exec/frame_limits.h"
#include "server/worker/session.h"

namespace tunefarm {

// Whether a file was there before the sandbox took it out of sight.
bool g_is_sick = false;

FrameCodec g_codec = FrameCodec::kProtobuf;

namespace {

using tunefarm::worker::v1::Frame;
using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::ProbeReport;
using tunefarm::worker::v1::Result;

[[noreturn]] void Hang() {
  while (true) pause();
}

void SendBytes(std::string_view bytes) { (void)!send(kWorkerChannelFd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

// Through a copy of the descriptor, so that the frame's sender does not close the session's.
void SendFrame(const Frame& frame, const std::vector<int>& fds = {}) {
  Channel channel(UniqueFd(dup(kWorkerChannelFd)), g_codec);
  (void)channel.Send(frame, fds);
}

[[noreturn]] void Crash() {
  signal(SIGSEGV, SIG_DFL);  // A sanitizer would make a report and exit code of it.
  raise(SIGSEGV);
  _exit(1);
}

void Flood() {
  const std::string line(1023, 'x');
  for (int i = 0; i < 10'000; ++i) (void)!write(2, (line + "\n").data(), 1024);
}

[[noreturn]] void ForkBomb() {
  while (true) {
    const pid_t child = fork();
    if (child < 0) Hang();  // Up against the limit: the most it can do.
  }
}

std::string Behaviour(const Config& config) { return config.Find("behave")->string_value(); }

// What both kinds of worker can do wrong. False when it is not one of these.
bool Misbehave(const std::string& behave, uint64_t next_evaluation_id) {
  Frame frame;
  if (behave == "crash") Crash();
  if (behave == "abort") {
    signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
  }
  if (behave == "hang") Hang();
  if (behave == "exit_0") _exit(0);
  if (behave == "exit_3") _exit(3);
  if (behave == "out_of_memory") std::get_new_handler()();
  if (behave == "killed") kill(getpid(), SIGKILL);
  if (behave == "sigsys") {
    signal(SIGSYS, SIG_DFL);
    raise(SIGSYS);
  }
  if (behave == "fork_bomb") ForkBomb();
  if (behave == "flood_and_crash") {
    (void)!write(2, "the first line\n", 15);
    Flood();
    (void)!write(2, "the last line\n", 14);
    Crash();
  }
  if (behave == "garbage") SendBytes("\xff\xff this is no frame \xff");
  if (behave == "unknown_field") SendBytes(R"({"result": {"outcome": 1, "winner": true}})");
  if (behave == "wrong_type") SendBytes(R"({"result": {"outcome": 1, "compile_ms": [1]}})");
  if (behave == "not_utf8") SendBytes("{\"result\": {\"outcome\": 1, \"message\": \"\xff\"}}");
  if (behave == "oversized") {
    const int size = 1 << 20;
    setsockopt(kWorkerChannelFd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    SendBytes(std::string(kFrameBytesMax + 1, '\n'));
  }
  if (behave == "empty_packet") SendBytes("");
  if (behave == "daemon_frame") {
    frame.mutable_shutdown();
    SendFrame(frame);
  }
  if (behave == "second_hello") {
    frame.mutable_hello()->set_version(kFrameProtocolVersion);
    SendFrame(frame);
  }
  if (behave == "wrong_id") {
    frame.mutable_result()->set_evaluation_id(next_evaluation_id + 1000);
    frame.mutable_result()->set_outcome(tunefarm::v1::OUTCOME_PRUNED);
    SendFrame(frame);
  }
  if (behave == "bad_phase") {
    frame.mutable_phase_began()->set_phase(static_cast<tunefarm::v1::Phase>(77));
    SendFrame(frame);
  }
  if (behave == "fds_with_log") {
    frame.mutable_log()->set_text("here, take these");
    SendFrame(frame, {0, 1});
  }
  if (behave == "close_channel") {
    close(kWorkerChannelFd);
    Hang();
  }
  // After what the daemon must answer with a kill there is nothing more to say.
  constexpr std::array<std::string_view, 11> kFatal = {"garbage",   "unknown_field", "wrong_type",   "not_utf8",
                                                       "oversized", "empty_packet",  "daemon_frame", "second_hello",
                                                       "wrong_id",  "bad_phase",     "fds_with_log"};
  for (const std::string_view fatal : kFatal) {
    if (behave == fatal) Hang();
  }
  return false;
}

class FakeCompile : public CompileBackend {
 public:
  explicit FakeCompile(std::string toolchain) : toolchain_(std::move(toolchain)) {}
  std::string toolchain() const override { return toolchain_; }

  Result Compile(const PreparedKernel&, const Config& config, PhaseReporter* reporter, std::string* artifact) override {
    const std::string behave = Behaviour(config);
    reporter->Begin(tunefarm::v1::PHASE_COMPILE);
    Misbehave(behave, 0);
    Result result;
    result.set_phase(tunefarm::v1::PHASE_COMPILE);
    result.set_compile_ms(1);
    if (behave == "compile_error") {
      result.set_outcome(tunefarm::v1::OUTCOME_COMPILE_ERROR);
      result.set_message("the source is wrong");
      result.set_log("error: expected ';'\xff");
      return result;
    }
    if (behave == "pipe_as_artifact") {
      int ends[2];
      (void)!pipe(ends);
      Frame frame;
      frame.mutable_result()->set_evaluation_id(1);
      frame.mutable_result()->set_outcome(tunefarm::v1::OUTCOME_OK);
      frame.mutable_result()->set_has_artifact(true);
      SendFrame(frame, {ends[0]});
      Hang();
    }
    result.set_outcome(tunefarm::v1::OUTCOME_OK);
    (*result.mutable_lowered_names())["entry"] = "_Z5entry";
    result.add_compile_options("--fast");
    *artifact = "binary of " + config.ToText();
    return result;
  }

 private:
  const std::string toolchain_;
};

// A device that two workers cannot hold at once: a lock on this file, if it is given.
std::string g_device_file;

// See Escape and "wait_in_measure".
std::string g_fifo;

// Leaves a process behind that is in no group of the worker's, and holds the channel until the FIFO is opened. Returns
// when that is so.
void Escape() {
  int ends[2];
  (void)!pipe(ends);
  if (fork() == 0) {
    setsid();
    (void)!write(ends[1], "x", 1);
    (void)!open(g_fifo.c_str(), O_RDONLY | O_CLOEXEC);
    _exit(0);
  }
  char escaped;
  (void)!read(ends[0], &escaped, 1);
}

class DeviceHold {
 public:
  DeviceHold() {
    if (g_device_file.empty()) return;
    fd_ = UniqueFd(open(g_device_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    // Seen as a crash with this code.
    if (!fd_ || flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) _exit(42);
  }

 private:
  UniqueFd fd_;
};

class FakeRun : public RunBackend {
 public:
  FakeRun(std::string warm_start, std::string health)
      : warm_start_(std::move(warm_start)), health_(std::move(health)) {}
  std::string toolchain() const override { return "fake"; }
  std::string warm_start() const override { return "made once"; }
  std::string ExpectedOutputs(int64_t bytes_max) override { return bytes_max >= 8 ? "expected" : ""; }

  tunefarm::worker::v1::HealthReport CheckHealth() override {
    const DeviceHold hold;
    tunefarm::worker::v1::HealthReport report;
    if (g_is_sick && health_ == "crash") Crash();
    report.set_ok(!g_is_sick || health_ == "slow");
    report.set_message(g_is_sick ? "one and one is three" : "");
    report.set_nanoseconds(g_is_sick ? 3000 : 1000);
    return report;
  }

  Prepared Prepare(std::shared_ptr<const PreparedKernel> kernel, PhaseReporter* reporter) override {
    reporter->Log("preparing");
    Prepared prepared;
    prepared.set_footprint_bytes(1024);
    const std::string prepare = kernel->problem.dims.Find("prepare")->ToText();
    if (prepare == "2") Crash();
    if (prepare == "3") Hang();
    if (kernel->standby) {
      for (int step = 0; step < 20; ++step) {
        reporter->TakeDevice();
        {
          const DeviceHold hold;
          if (prepare == "6") Crash();
          if (prepare == "7") Hang();
        }
        reporter->YieldDevice();  // From here on another may hold it.
      }
    }
    expected_ = kernel->expected_outputs;
    files_ = kernel->data_files.empty() ? "" : fmt::format(" files={}:", kernel->data_files.size());
    for (const auto& [digest, file] : kernel->data_files) {
      std::array<char, 64> content;
      const ssize_t got = pread(file->get(), content.data(), content.size(), 0);
      files_ += std::string_view(content.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }
    if (prepare == "4") {
      prepared.set_outcome(tunefarm::v1::OUTCOME_OUT_OF_MEMORY);
      prepared.set_message("the inputs do not fit");
      return prepared;
    }
    ++preparations_;
    prepared.set_ok(true);
    return prepared;
  }

  Result Run(const RunInput& input, PhaseReporter* reporter) override {
    const std::string behave = Behaviour(input.config);
    ++runs_;
    if (behave == "hang_silently") Hang();
    reporter->Begin(tunefarm::v1::PHASE_LOAD);
    if (behave == "crash_in_load") Crash();
    if (behave == "leave_child" && fork() == 0) Hang();
    if (behave == "escape") Escape();
    reporter->Begin(tunefarm::v1::PHASE_FIRST_LAUNCH);
    if (behave == "escape") Hang();
    Misbehave(behave, 0);
    if (behave == "flood") Flood();
    reporter->Begin(tunefarm::v1::PHASE_VERIFY);
    Result result;
    result.set_phase(tunefarm::v1::PHASE_MEASURE);
    // Tells the tests how warm the worker was and whether the binary came through.
    result.set_message(fmt::format("preparations={} runs={} artifact={} pid={} warm={} expected={}{}", preparations_,
                                   runs_, input.artifact, getpid(), warm_start_, expected_, files_));
    result.set_worker_is_damaged(behave == "damaged" || behave == "lost");
    if (behave == "lost" || behave == "refused") {
      result.set_outcome(tunefarm::v1::OUTCOME_LOST);
      result.set_message(behave == "lost" ? "cannot fork a trial" : "the worker does not accept the config");
      return result;
    }
    if (behave == "child_killed_once" && runs_ == 1) {
      result.set_outcome(tunefarm::v1::OUTCOME_RUN_CRASH);
      result.set_is_killed(true);
      return result;
    }
    if (behave == "wrong_result") {
      result.set_phase(tunefarm::v1::PHASE_VERIFY);
      result.set_outcome(tunefarm::v1::OUTCOME_WRONG_RESULT);
      return result;
    }
    result.set_outcome(behave == "bad_outcome" ? static_cast<tunefarm::v1::Outcome>(99) : tunefarm::v1::OUTCOME_OK);
    for (int i = 0; behave == "phase_storm" && i < 100; ++i) reporter->Begin(tunefarm::v1::PHASE_MEASURE);
    reporter->Begin(tunefarm::v1::PHASE_MEASURE);
    const DeviceHold hold;
    if (behave == "hang_in_measure") Hang();
    if (behave == "crash_in_measure") Crash();
    if (behave == "wait_in_measure") {
      char end;  // of the FIFO, when the test has closed it
      const UniqueFd fifo(open(g_fifo.c_str(), O_RDONLY | O_CLOEXEC));
      (void)!read(fifo.get(), &end, 1);
    }
    result.mutable_measurement()->set_median_ns(behave == "nan_time" ? std::nan("") : 1000);
    result.mutable_measurement()->set_samples(behave == "no_time" ? 0 : input.policy.min_samples());
    return result;
  }

 private:
  const std::string warm_start_, health_;
  std::string expected_, files_;
  int preparations_ = 0;
  int runs_ = 0;
};

class FakeProbe : public ProbeBackend {
 public:
  explicit FakeProbe(std::string backend) : backend_(std::move(backend)) {}
  void Probe(ProbeReport* report) override {
    if (backend_ == "cuda") Crash();
    report->add_devices()->set_uuid("fake-device");
    report->add_notes("a note\x01");
  }

 private:
  const std::string backend_;
};

std::string FakeOption(const WorkerArguments& arguments, std::string_view name) {
  for (const std::string& argument : arguments.unknown) {
    if (argument.rfind(fmt::format("--fake-{}=", name), 0) == 0) return argument.substr(argument.find('=') + 1);
  }
  return "";
}

WorkerBackends MakeBackends(const WorkerArguments& arguments) {
  g_codec = FrameCodecOf(arguments.backend);
  const std::string start = FakeOption(arguments, "start");
  if (start == "never") Hang();
  if (start == "crash") Crash();
  if (start == "garbage") {
    SendBytes("not a greeting");
    Hang();
  }
  if (start == "old_version") {
    Frame frame;
    frame.mutable_hello()->set_version(kFrameProtocolVersion + 1);
    SendFrame(frame);
    Hang();
  }
  WorkerBackends backends;
  backends.compile = [start, toolchain = FakeOption(arguments, "toolchain")](
                         const WorkerOptions&) -> absl::StatusOr<std::unique_ptr<CompileBackend>> {
    if (start == "no_backend") return FailedPrecondition("there is no compiler; install one");
    return std::make_unique<FakeCompile>(toolchain.empty() ? "fake 1.0" : toolchain);
  };
  g_device_file = FakeOption(arguments, "device-file");
  g_fifo = FakeOption(arguments, "fifo");
  backends.run = [start, health = FakeOption(arguments, "health")](
                     const WorkerOptions& options) -> absl::StatusOr<std::unique_ptr<RunBackend>> {
    if (start == "no_backend") return FailedPrecondition("there is no driver; install one");
    return std::make_unique<FakeRun>(options.warm_start, health);
  };
  backends.probe = [backend = arguments.backend](const WorkerOptions&) { return std::make_unique<FakeProbe>(backend); };
  return backends;
}

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  // Outside the sandbox: fails while the file exists.
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    constexpr std::string_view kFailWhile = "--fake-fail-while=";
    if (argument.rfind(kFailWhile, 0) == 0 && access(argv[i] + kFailWhile.size(), F_OK) == 0) return 9;
    constexpr std::string_view kSickWhile = "--fake-sick-while=";
    if (argument.rfind(kSickWhile, 0) == 0) tunefarm::g_is_sick = access(argv[i] + kSickWhile.size(), F_OK) == 0;
  }
  return tunefarm::WorkerMain(argc, argv, tunefarm::MakeBackends);
}
