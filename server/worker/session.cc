#include "server/worker/session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "server/base/memfd.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/captured_output.h"
#include "server/exec/channel.h"
#include "server/exec/frame_limits.h"
#include "server/worker/nvml/clock_lock.h"
#include "server/worker/sandbox/sandbox_limits.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Evaluate;
using tunefarm::worker::v1::Frame;
using tunefarm::worker::v1::Prepare;
using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

// A compile worker that has grown beyond this asks to be replaced.
constexpr int64_t kResidentKiBMax = 2 << 20;
constexpr int kCompileNiceness = 5;
// Foreign code can make a process or thread only while fewer exist of the runner's uid, of which the sandbox allows
// kProcessesMax: the runner still forks beside a trial, and measures the overhead of launches with as many threads. A
// limit that the user has set counts all of the user's processes: no part of it is the runner's.
constexpr int64_t kTrialProcessesMax = kProcessesMax / 2;

// At most bytes_max bytes of printable text, the middle cut out.
std::string Fit(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return PrintableText(text);
  CapturedOutput cut(bytes_max - 128);
  cut.Append(text);
  return PrintableText(cut.Text());
}

// Nothing when there is nothing, or no memory for it: then others run the reference themselves.
UniqueFd SealExpectedOutputs(const std::string& bytes) {
  if (bytes.empty()) return {};
  absl::StatusOr<UniqueFd> created = CreateSealedMemfd("expected outputs", bytes);
  return created.ok() ? *std::move(created) : UniqueFd();
}

class Session : public PhaseReporter {
 public:
  Session(const WorkerArguments& arguments, Channel channel) : arguments_(arguments), channel_(std::move(channel)) {}

  int Serve(const std::string& sandbox_level, WorkerOptions options, const WorkerBackends& backends);

  void Begin(tunefarm::v1::Phase phase) override {
    // Before the announcement: the phase's deadline must not run while others have the device.
    if (evaluating_) phase == tunefarm::v1::PHASE_MEASURE ? TakeDevice() : YieldDevice();
    Frame frame;
    frame.mutable_phase_began()->set_evaluation_id(evaluation_id_);
    frame.mutable_phase_began()->set_phase(phase);
    SendOrExit(frame);
  }
  void Log(std::string_view text) override {
    Frame frame;
    frame.mutable_log()->set_text(Fit(text, kFrameMessageBytesMax));
    SendOrExit(frame);
  }
  void TakeDevice() override;
  void YieldDevice() override;

 private:
  absl::StatusOr<std::string> ReceiveWarmStart();
  absl::Status OnPrepare(const Prepare& prepare, std::vector<UniqueFd> fds);
  absl::StatusOr<std::shared_ptr<const PreparedKernel>> ReadKernel(const Prepare& prepare, std::vector<UniqueFd> fds);
  absl::Status OnEvaluate(const Evaluate& evaluate, const std::vector<UniqueFd>& fds);
  absl::Status OnHealthCheck();
  Result DoEvaluate(const Evaluate& evaluate, const Config& config, std::string artifact,
                    std::optional<YardstickInput> yardstick, std::string* compiled);
  absl::Status SendResult(Result result, const std::string& artifact);
  int Loop();
  // The daemon is gone or does not want us any more: nothing is left to do.
  void SendOrExit(const Frame& frame, const std::vector<int>& fds = {}) {
    if (!channel_.Send(frame, fds).ok()) _exit(kWorkerExitOk);
  }

  const WorkerArguments& arguments_;
  Channel channel_;
  std::unique_ptr<CompileBackend> compile_;
  std::unique_ptr<RunBackend> run_;
  std::shared_ptr<const PreparedKernel> kernel_;
  // The plan of the last kernel: problems change more often than kernels.
  std::string kernel_bytes_;
  std::shared_ptr<const KernelPlan> plan_;
  uint64_t evaluation_id_ = 0;
  bool evaluating_ = false;
  bool shares_device_ = false;  // for what is under way the baton is needed
  bool has_baton_ = false;
};

void Session::TakeDevice() {
  if (!shares_device_ || has_baton_) return;
  Frame request;
  request.mutable_baton_request();
  SendOrExit(request);
  ReceivedFrame received;
  std::string error;
  switch (channel_.Receive(&received, &error)) {
    case ReceiveResult::kFrame:
      break;
    case ReceiveResult::kClosed:
      _exit(kWorkerExitOk);
    default:
      _exit(kWorkerExitProtocol);
  }
  // Nothing else is sent to a worker that is not idle but the wish that it ends.
  if (received.frame.has_shutdown()) _exit(kWorkerExitOk);
  if (!received.frame.has_baton_grant()) _exit(kWorkerExitProtocol);
  has_baton_ = true;
}

void Session::YieldDevice() {
  if (!has_baton_) return;
  has_baton_ = false;
  Frame frame;
  frame.mutable_baton_return();
  SendOrExit(frame);
}

absl::StatusOr<std::string> Session::ReceiveWarmStart() {
  ReceivedFrame received;
  std::string error;
  const ReceiveResult result = channel_.Receive(&received, &error);
  if (result == ReceiveResult::kClosed) _exit(kWorkerExitOk);
  if (result != ReceiveResult::kFrame || !received.frame.has_warm_start()) {
    return InvalidArgument("the daemon's first frame is another than a run worker expects {}", error);
  }
  if (received.fds.size() != (received.frame.warm_start().has_warm_start() ? 1u : 0u)) {
    return InvalidArgument("a WarmStart with {} descriptors", received.fds.size());
  }
  if (received.fds.empty()) return std::string();
  return ReadSealedMemfd(received.fds[0].get(), kWarmStartBytesMax);
}

int Session::Serve(const std::string& sandbox_level, WorkerOptions options, const WorkerBackends& backends) {
  Frame hello;
  hello.mutable_hello()->set_version(kFrameProtocolVersion);
  hello.mutable_hello()->set_role(arguments_.role);
  hello.mutable_hello()->set_backend(arguments_.backend);
  hello.mutable_hello()->set_sandbox_level(Fit(sandbox_level, 1000));
  hello.mutable_hello()->set_pid(getpid());
  if (arguments_.role == "probe") {
    SendOrExit(hello);
    Frame report;
    backends.probe(options)->Probe(report.mutable_probe_report());
    for (std::string& note : *report.mutable_probe_report()->mutable_notes()) note = Fit(note, kFrameMessageBytesMax);
    SendOrExit(report);
    return Loop();
  }
  absl::Status made;
  std::string left_to_others;
  if (arguments_.role == "compile") {
    absl::StatusOr<std::unique_ptr<CompileBackend>> backend = backends.compile(options);
    made = backend.status();
    if (backend.ok()) {
      compile_ = *std::move(backend);
      hello.mutable_hello()->set_toolchain(Fit(compile_->toolchain(), 1000));
    }
  } else {
    absl::StatusOr<std::string> earlier = ReceiveWarmStart();
    if (!earlier.ok()) {
      fmt::print(stderr, "{}\n", MessageOf(earlier.status()));
      return kWorkerExitProtocol;
    }
    options.warm_start = *std::move(earlier);
    absl::StatusOr<std::unique_ptr<RunBackend>> backend = backends.run(options);
    made = backend.status();
    if (backend.ok()) {
      run_ = *std::move(backend);
      hello.mutable_hello()->set_toolchain(Fit(run_->toolchain(), 1000));
      if (options.warm_start.empty()) left_to_others = run_->warm_start();
    }
  }
  if (!made.ok()) {
    fmt::print(stderr, "{}\n", MessageOf(made));
    return kWorkerExitBackend;
  }
  UniqueFd memfd;
  if (!left_to_others.empty() && left_to_others.size() <= kWarmStartBytesMax) {
    // Without it others start slower.
    if (auto created = CreateSealedMemfd("warm start", left_to_others); created.ok()) memfd = *std::move(created);
  }
  hello.mutable_hello()->set_has_warm_start(memfd.valid());
  SendOrExit(hello, memfd ? std::vector<int>{memfd.get()} : std::vector<int>());
  return Loop();
}

int Session::Loop() {
  while (true) {
    ReceivedFrame received;
    std::string error;
    switch (channel_.Receive(&received, &error)) {
      case ReceiveResult::kClosed:
        return kWorkerExitOk;
      case ReceiveResult::kEmpty:
        continue;
      case ReceiveResult::kGarbage:
        fmt::print(stderr, "the daemon cannot be understood: {}\n", error);
        return kWorkerExitProtocol;
      case ReceiveResult::kFrame:
        break;
    }
    absl::Status done;
    switch (received.frame.body_case()) {
      case Frame::kShutdown:
        return kWorkerExitOk;
      case Frame::kPrepare:
        done = OnPrepare(received.frame.prepare(), std::move(received.fds));
        break;
      case Frame::kEvaluate:
        done = OnEvaluate(received.frame.evaluate(), received.fds);
        break;
      case Frame::kHealthCheck:
        done = OnHealthCheck();
        break;
      default:
        done = InvalidArgument("a frame that no worker takes");
    }
    if (!done.ok()) {
      fmt::print(stderr, "the daemon sent something wrong: {}\n", MessageOf(done));
      return kWorkerExitProtocol;
    }
  }
}

absl::StatusOr<std::shared_ptr<const PreparedKernel>> Session::ReadKernel(const Prepare& prepare,
                                                                          std::vector<UniqueFd> fds) {
  const size_t memfds = 1u + (prepare.has_reference_artifact() ? 1 : 0) + (prepare.has_expected_outputs() ? 1 : 0);
  const size_t expected = memfds + static_cast<size_t>(prepare.data_file_digests_size());
  if (fds.size() != expected)
    return InvalidArgument("a Prepare with {} descriptors instead of {}", fds.size(), expected);
  ASSIGN_OR_RETURN(std::string bytes, ReadSealedMemfd(fds[0].get(), kKernelBytesMax));
  if (plan_ == nullptr || bytes != kernel_bytes_) {
    plan_ = nullptr;
    tunefarm::v1::Kernel kernel;
    RETURN_IF_ERROR(Annotate(DecodeMessage(channel_.codec(), bytes, &kernel), "a kernel of {} bytes", bytes.size()));
    ASSIGN_OR_RETURN(plan_, KernelPlan::Compile(kernel));
    kernel_bytes_ = std::move(bytes);
  }
  auto prepared = std::make_shared<PreparedKernel>();
  prepared->plan = plan_;
  ASSIGN_OR_RETURN(prepared->problem, plan_->ResolveProblem(prepare.problem()));
  ASSIGN_OR_RETURN(prepared->device_class, DeviceClass::FromProto(prepare.device_class()));
  prepared->input_seed = prepare.input_seed();
  if (prepare.has_reference_artifact()) {
    ASSIGN_OR_RETURN(prepared->reference_artifact, ReadSealedMemfd(fds[1].get(), kArtifactBytesMax));
  }
  if (prepare.has_expected_outputs()) {
    ASSIGN_OR_RETURN(prepared->expected_outputs, ReadSealedMemfd(fds[memfds - 1].get(), kExpectedOutputsBytesMax));
  }
  for (int i = 0; i < prepare.data_file_digests_size(); ++i) {
    UniqueFd& file = fds[memfds + static_cast<size_t>(i)];
    // Other workers read the same file.
    if ((fcntl(file.get(), F_GETFL) & O_ACCMODE) != O_RDONLY)
      return InvalidArgument("data file {} is not open for reading alone", prepare.data_file_digests(i));
    prepared->data_files[prepare.data_file_digests(i)] = std::make_shared<const UniqueFd>(std::move(file));
  }
  prepared->standby = prepare.standby();
  prepared->reference_lowered_names.insert(prepare.reference_lowered_names().begin(),
                                           prepare.reference_lowered_names().end());
  prepared->compile_options.assign(prepare.compile_options().begin(), prepare.compile_options().end());
  return prepared;
}

absl::Status Session::OnPrepare(const Prepare& prepare, std::vector<UniqueFd> fds) {
  evaluation_id_ = 0;
  kernel_ = nullptr;
  Frame frame;
  UniqueFd outputs;
  Prepared* prepared = frame.mutable_prepared();
  absl::StatusOr<std::shared_ptr<const PreparedKernel>> kernel = ReadKernel(prepare, std::move(fds));
  if (!kernel.ok()) {
    // The daemon compiled the same definition before it sent it.
    prepared->set_outcome(tunefarm::v1::OUTCOME_LOST);
    prepared->set_message(fmt::format("the worker does not accept the kernel: {}", MessageOf(kernel.status())));
  } else if (run_ != nullptr) {
    shares_device_ = prepare.standby();
    *prepared = run_->Prepare(*kernel, this);
    YieldDevice();
    shares_device_ = false;
    const int64_t bytes_max = prepare.expected_outputs_bytes_max();
    if (prepared->ok() && bytes_max > 0) outputs = SealExpectedOutputs(run_->ExpectedOutputs(bytes_max));
    prepared->set_has_expected_outputs(outputs.valid());
  } else {
    prepared->set_ok(true);
  }
  prepared->set_message(Fit(prepared->message(), kFrameMessageBytesMax));
  if (prepared->ok()) kernel_ = *std::move(kernel);
  SendOrExit(frame, outputs ? std::vector<int>{outputs.get()} : std::vector<int>());
  return absl::OkStatus();
}

absl::Status Session::OnHealthCheck() {
  if (run_ == nullptr) return InvalidArgument("a HealthCheck for a worker that runs nothing");
  Frame frame;
  *frame.mutable_health_report() = run_->CheckHealth();
  frame.mutable_health_report()->set_message(Fit(frame.health_report().message(), kFrameMessageBytesMax));
  SendOrExit(frame);
  return absl::OkStatus();
}

absl::Status Session::OnEvaluate(const Evaluate& evaluate, const std::vector<UniqueFd>& fds) {
  if (kernel_ == nullptr) return InvalidArgument("an Evaluate without a Prepare before it");
  const size_t expected = (evaluate.has_artifact() ? 1u : 0u) + (evaluate.has_yardstick() ? 1u : 0u);
  if (fds.size() != expected)
    return InvalidArgument("an Evaluate with {} descriptors instead of {}", fds.size(), expected);
  evaluation_id_ = evaluate.evaluation_id();
  std::string artifact;
  if (evaluate.has_artifact()) {
    ASSIGN_OR_RETURN(artifact, ReadSealedMemfd(fds[0].get(), kArtifactBytesMax));
  }
  std::optional<YardstickInput> yardstick;
  if (evaluate.has_yardstick()) {
    yardstick.emplace();
    ASSIGN_OR_RETURN(yardstick->artifact, ReadSealedMemfd(fds.back().get(), kArtifactBytesMax));
    ASSIGN_OR_RETURN(yardstick->config, kernel_->plan->ParseConfig(evaluate.yardstick().config()));
    yardstick->lowered_names.insert(evaluate.yardstick().lowered_names().begin(),
                                    evaluate.yardstick().lowered_names().end());
  }
  std::string compiled;
  Result result;
  // A baseline may have no config.
  absl::StatusOr<Config> config = Config();
  if (!evaluate.baseline() || !evaluate.config().values().empty())
    config = kernel_->plan->ParseConfig(evaluate.config());
  if (config.ok()) {
    result = DoEvaluate(evaluate, *config, std::move(artifact), std::move(yardstick), &compiled);
  } else {
    result.set_outcome(tunefarm::v1::OUTCOME_LOST);
    result.set_message(fmt::format("the worker does not accept the config: {}", MessageOf(config.status())));
  }
  RETURN_IF_ERROR(SendResult(std::move(result), compiled));
  if (run_ != nullptr) run_->CleanUp();
  return absl::OkStatus();
}

Result Session::DoEvaluate(const Evaluate& evaluate, const Config& config, std::string artifact,
                           std::optional<YardstickInput> yardstick, std::string* compiled) {
  if (compile_ != nullptr) {
    Result result = evaluate.ptx() ? compile_->CompilePtx(*kernel_, config, this, compiled)
                                   : compile_->Compile(*kernel_, config, this, compiled);
    rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > kResidentKiBMax) result.set_worker_is_damaged(true);
    return result;
  }
  RunInput input;
  input.config = config;
  input.artifact = std::move(artifact);
  input.lowered_names.insert(evaluate.lowered_names().begin(), evaluate.lowered_names().end());
  input.baseline = evaluate.baseline();
  input.verify_only = evaluate.verify_only();
  input.keep_samples = evaluate.keep_samples();
  input.policy = evaluate.policy();
  input.input_seed = evaluate.input_seed();
  input.second_input_seed = evaluate.second_input_seed();
  input.race_limit_ns = evaluate.race_limit_ns();
  input.own_processes = evaluate.own_processes();
  input.yardstick = std::move(yardstick);
  evaluating_ = true;
  shares_device_ = evaluate.baton();
  Result result = run_->Run(input, this);
  // Before the result: its receiver may give the device to others.
  YieldDevice();
  evaluating_ = shares_device_ = false;
  return result;
}

absl::Status Session::SendResult(Result result, const std::string& artifact) {
  result.set_evaluation_id(evaluation_id_);
  result.set_message(Fit(result.message(), kFrameMessageBytesMax));
  result.set_log(Fit(result.log(), kFrameLogBytesMax));
  result.set_has_artifact(compile_ != nullptr && result.outcome() == tunefarm::v1::OUTCOME_OK);
  UniqueFd memfd;
  if (result.has_artifact() && artifact.size() > kArtifactBytesMax) {
    result.set_has_artifact(false);
    result.set_outcome(tunefarm::v1::OUTCOME_PRUNED);
    result.set_message(fmt::format("the binary has {} bytes, the limit is {}", artifact.size(), kArtifactBytesMax));
  }
  if (result.has_artifact()) {
    ASSIGN_OR_RETURN(memfd, CreateSealedMemfd("binary", artifact));
    result.mutable_resources()->set_binary_bytes(static_cast<int64_t>(artifact.size()));
  }
  size_t option_bytes = 0;
  for (const std::string& option : result.compile_options()) option_bytes += option.size() + 1;
  if (option_bytes > kFrameOptionsBytesMax) result.clear_compile_options();
  Frame frame;
  *frame.mutable_result() = std::move(result);
  // The log is what can be spared.
  if (frame.ByteSizeLong() > kFrameBytesMax) frame.mutable_result()->set_log("[... the log did not fit ...]");
  // Without the list of headers a binary is never found again.
  if (frame.ByteSizeLong() > kFrameBytesMax && frame.result().has_inputs()) {
    frame.mutable_result()->mutable_inputs()->Clear();
  }
  if (frame.ByteSizeLong() > kFrameBytesMax) {
    return ResourceExhausted("a result of {} bytes does not fit into one frame", frame.ByteSizeLong());
  }
  SendOrExit(frame, memfd ? std::vector<int>{memfd.get()} : std::vector<int>());
  return absl::OkStatus();
}

// Where an allocation fails nothing can be formatted any more.
void OnOutOfMemory() {
  constexpr char kMessage[] = "out of memory\n";
  (void)!write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(kWorkerExitOutOfMemory);
}

}  // namespace

int ServeWorker(const WorkerArguments& arguments, const SandboxResult& sandbox, const WorkerBackends& backends,
                UniqueFd channel) {
  WorkerOptions options;
  options.scratch_directory = sandbox.scratch;
  options.device_uuid = arguments.device_uuid;
  options.cuda_path = arguments.cuda_path;
  options.host_compiler = arguments.host_compiler;
  options.compile_seconds = arguments.compile_seconds;
  if (sandbox.limits_processes) options.trial_processes_max = kTrialProcessesMax;
  return Session(arguments, Channel(std::move(channel), FrameCodecOf(arguments.backend)))
      .Serve(sandbox.level, options, backends);
}

int WorkerMain(int argc, char** argv, const std::function<WorkerBackends(const WorkerArguments&)>& backends) {
  const absl::StatusOr<WorkerArguments> arguments = ParseWorkerArguments(argc, argv);
  if (!arguments.ok()) {
    fmt::print(stderr, "tunefarm-worker: {}\n", MessageOf(arguments.status()));
    return kWorkerExitUsage;
  }
  // Before the first fork, so that stub and init have it too. EnterSandbox gives the worker itself a limit of its own.
  if (arguments->descriptors > 0) LowerDescriptorLimit(arguments->descriptors);
  // A sandbox would take away the right to hold a clock; this role runs no code but NVML's and its own.
  if (arguments->role == kClocksRole) {
    return cuda::HoldClock({arguments->device_uuid, arguments->clock_mhz, arguments->clock_marker},
                           UniqueFd(arguments->channel_fd));
  }
  const SandboxResult sandbox = EnterSandbox(*arguments);
  // The daemon decides when a worker ends; a Ctrl-C that reaches the whole terminal must not.
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  std::set_new_handler(OnOutOfMemory);
  // Compilers take every core; what runs trials, and the daemon that answers callers, go first.
  if (arguments->role == "compile") (void)setpriority(PRIO_PROCESS, 0, kCompileNiceness);
  if (!sandbox.scratch.empty() && chdir(sandbox.scratch.c_str()) != 0) {
    fmt::print(stderr, "cannot enter {}: {}\n", sandbox.scratch, strerrordesc_np(errno));
    return kWorkerExitSandbox;
  }
  const WorkerBackends chosen = backends(*arguments);
  if (chosen.become) return chosen.become(*arguments, sandbox.level, sandbox.scratch);
  // Programs that a backend starts must not inherit it.
  (void)fcntl(arguments->channel_fd, F_SETFD, FD_CLOEXEC);
  return ServeWorker(*arguments, sandbox, chosen, UniqueFd(arguments->channel_fd));
}

}  // namespace tunefarm
