#include "server/worker/host/trial/trial_child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/worker/host/cache_flush.h"
#include "server/worker/host/kernel_calls.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/sandbox/seccomp_filter.h"
#include "server/worker/verify/poison.h"

namespace tunefarm {
namespace {

// What a kernel may allocate beyond the process as it is when the trial starts: enough for any work space, and far from
// driving the machine into swap.
constexpr uint64_t kExtraMemoryBytes = uint64_t{1} << 30;

// Nobody's kernel writes files; what it may fill is memory.
constexpr uint64_t kFileBytesMax = uint64_t{64} << 20;
// No cache has shorter ones.
constexpr size_t kLineBytes = 64;
// The daemon's deadlines end a trial much earlier, as long as there is a daemon that can.
constexpr uint64_t kProcessorSecondsMax = 3600;

// For the handlers, which take no argument. Set once in the child.
TrialPage* g_page = nullptr;

void OnFault(int signal, siginfo_t* info, void*) {
  g_page->fault_address.store(reinterpret_cast<uintptr_t>(info->si_addr), std::memory_order_release);
  g_page->faulted.store(1, std::memory_order_release);
  // Returning runs the faulting instruction again, and that ends the process with the true signal. One that was sent,
  // not caused, has no instruction to run again.
  ::signal(signal, SIG_DFL);
  if (info->si_code <= 0) raise(signal);
}

void OnForbidden(int signal, siginfo_t* info, void* context) {
  if (RepeatForCaller(*info, context)) return;
  g_page->forbidden_syscall.store(info->si_syscall, std::memory_order_release);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void OnNewFailed() {
  g_page->out_of_memory.store(1, std::memory_order_release);
  throw std::bad_alloc();
}

// exit() inside a kernel: ends with its code, without running the exit handlers that the parent registered before the
// fork.
void OnExit(int code, void*) { _exit(code); }

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) (void)::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // A stack that overflowed cannot hold the handler's frame.
  static std::array<std::byte, 16 * 1024> alternate_stack;
  stack_t stack = {};
  stack.ss_sp = alternate_stack.data();
  stack.ss_size = alternate_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
  action.sa_sigaction = OnForbidden;
  sigaction(SIGSYS, &action, nullptr);
}

void CloseAllBut(std::array<int, 3> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned next = 3;
  for (const int fd : keep) {
    if (fd < 0) continue;
    if (static_cast<unsigned>(fd) > next) close_range(next, static_cast<unsigned>(fd) - 1, 0);
    next = static_cast<unsigned>(fd) + 1;
  }
  close_range(next, ~0u, 0);
}

void RedirectStandardStreams() {
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  // Standard output may be anything in the worker; a kernel's words belong into its log.
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

void LowerLimit(int resource, uint64_t value) {
  struct rlimit limit = {};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return;
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > value) limit.rlim_max = value;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, value);
  setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

// `own_bytes`: what this side of the process allocates, which is not to be the kernel's loss.
void LimitMemory(uint64_t own_bytes) {
  LowerLimit(RLIMIT_CORE, 0);
  LowerLimit(RLIMIT_FSIZE, kFileBytesMax);
  LowerLimit(RLIMIT_CPU, kProcessorSecondsMax);
  FILE* const statm = fopen("/proc/self/statm", "re");
  if (statm == nullptr) return;
  unsigned long long total = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  const int fields = fscanf(statm, "%llu %llu %llu %llu %llu %llu", &total, &resident, &shared, &text, &library, &data);
  fclose(statm);
  if (fields != 6) return;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  LowerLimit(RLIMIT_AS, total * page + own_bytes + kExtraMemoryBytes);
  LowerLimit(RLIMIT_DATA, data * page + own_bytes + kExtraMemoryBytes);
}

}  // namespace

// The child's side of the conversation.
class TrialChild {
 public:
  TrialChild(const TrialProgram& program, const TrialEnds& ends)
      : program_(program), pid_(getpid()), command_fd_(ends.command_fd), reply_fd_(ends.reply_fd), page_(ends.page) {}

  [[noreturn]] void Serve() {
    if (program_.load_at_start) {
      if (!Guarded([this] { return Load(program_.sequences); })) WaitForTheEnd();
      Reply(kTrialDone);
    }
    TrialCommand command;
    while (ReadCommand(&command)) {
      if (!Guarded([this, &command] { return Obey(command); })) WaitForTheEnd();
      Reply(kTrialDone);
    }
    _exit(0);
  }

 private:
  // Runs foreign code. False when it failed, which has been reported.
  template <typename Body>
  bool Guarded(Body body) {
    char failure = kTrialThrew;
    try {
      if (body()) return true;
      failure = kTrialLoadError;
    } catch (const std::bad_alloc&) {
      failure = kTrialOutOfMemory;
    } catch (const std::exception& exception) {
      SetText(exception.what());
    } catch (...) {
      SetText("something that is no std::exception");
    }
    Reply(failure);
    return false;
  }

  // The binary, unless it is loaded, and what is a config's own.
  bool Load(const HostSequences& sequences) {
    if (program_.library_fd >= 0 && library_ == nullptr) {
      // Not by fmt: every page that a trial is the first to touch costs it a fault.
      std::array<char, 32> path = {"/proc/self/fd/"};
      std::to_chars(path.data() + std::strlen(path.data()), path.data() + path.size() - 1, program_.library_fd);
      // An open file of its own: what foreign code does to the offset of the shared one, later trials could read.
      const int own = open(path.data(), O_RDONLY | O_CLOEXEC);
      if (own < 0 || dup3(own, program_.library_fd, O_CLOEXEC) < 0) return Fail(strerror(errno));
      close(own);
      library_ = dlopen(path.data(), RTLD_NOW | RTLD_LOCAL);
      if (library_ == nullptr) return Fail(dlerror());
      close(program_.library_fd);
    }
    void* const library = library_;
    for (const TrialCopy& copy : program_.symbols) {
      void* const address = library == nullptr ? nullptr : dlsym(library, copy.symbol.c_str());
      if (address == nullptr) return Fail(fmt::format("the binary has no constant symbol '{}'", copy.symbol).c_str());
      std::memcpy(address, copy.source.data(), copy.source.size());
    }
    absl::StatusOr<KernelCalls> prepare = KernelCalls::Resolve(library, sequences.prepare);
    if (!prepare.ok()) return Fail(std::string(MessageOf(prepare.status())).c_str());
    absl::StatusOr<KernelCalls> launches = KernelCalls::Resolve(library, sequences.launches);
    if (!launches.ok()) return Fail(std::string(MessageOf(launches.status())).c_str());
    prepare_ = *std::move(prepare);
    launches_ = *std::move(launches);
    return true;
  }

  bool Obey(const TrialCommand& command) {
    int64_t nanoseconds = 0;
    switch (command.kind) {
      case TrialCommand::kLaunch:
        RunSteps(&prepare_);
        nanoseconds = RunSteps(&launches_);
        break;
      case TrialCommand::kWarm:
        for (uint32_t i = 0; i < command.count; ++i) {
          BeforeSample(command);
          nanoseconds += RunSteps(&launches_);
        }
        break;
      case TrialCommand::kSample:
        for (uint32_t sample = 0; sample < std::min<uint32_t>(command.samples, kSamplesPerBatchMax); ++sample) {
          nanoseconds = 0;
          if (command.rehearse != 0) RunSteps(&launches_);
          BeforeSample(command);
          for (uint32_t i = 0; i < command.count; ++i) nanoseconds += RunSteps(&launches_);
          page_->sample_nanoseconds[sample].store(nanoseconds, std::memory_order_release);
        }
        break;
      case TrialCommand::kConfig:
        return TakeConfig(command.count);
      case TrialCommand::kPrepare:
        RunSteps(&prepare_);
        break;
      case TrialCommand::kStretch:
        launches_.RunStretch(command.count);
        break;
      case TrialCommand::kBusy:
        nanoseconds = ReadMemory(command);
        BeBusy(command.count);
        break;
      case TrialCommand::kIdle:
        for (uint32_t i = 0; i < command.count && StartSleepingThread(); ++i) {
        }
        break;
      case TrialCommand::kMove:
      case TrialCommand::kStay:
        MoveTo(command.count, command.kind == TrialCommand::kStay);
        break;
      default:
        _exit(1);
    }
    page_->nanoseconds.store(nanoseconds, std::memory_order_release);
    return true;
  }

  bool TakeConfig(uint32_t bytes) {
    std::string config(std::min<size_t>(bytes, kTrialConfigBytesMax), '\0');
    if (!Read(config.data(), config.size())) _exit(1);
    HostSequences sequences;
    if (!DecodeSequences(config, &sequences)) _exit(1);
    return Load(sequences);
  }

  // A kernel that forks and returns twice makes two of us; only one answers (see Reply).
  int64_t RunSteps(KernelCalls* calls) { return calls->Run(); }

  // Gaps in which this process did not run are no work: they lengthen the launch, as they do for a kernel.
  static void BeBusy(uint32_t nanoseconds) {
    constexpr Duration kStepMax = std::chrono::microseconds(5);
    Duration worked{};
    MonotonicTime last = Clock::Real()->Now();
    while (worked < Duration(nanoseconds)) {
      const MonotonicTime now = Clock::Real()->Now();
      worked += std::min(now - last, kStepMax);
      last = now;
    }
  }

  int64_t ReadMemory(const TrialCommand& command) const {
    // What it walks over is not kept.
    if (command.flush != 0) CacheFlush(program_.flush_memory, program_.flush_bytes, DetectLineEviction()).Run();
    const MonotonicTime start = Clock::Real()->Now();
    size_t bytes = command.bytes;
    for (std::span<const std::byte> memory : program_.flush_memory) {
      memory = memory.first(std::min(memory.size(), bytes));
      bytes -= memory.size();
      ForEachLine(memory, kLineBytes, [](const std::byte* at) { (void)*const_cast<const volatile std::byte*>(at); });
    }
    return (Clock::Real()->Now() - start).count();
  }

  // Where that cannot be, it stays where it is.
  static void MoveTo(uint32_t processor, bool stays) {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    CPU_SET(processor, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0 || stays) return;
    (void)sched_setaffinity(0, sizeof(allowed), &allowed);
  }

  void BeforeSample(const TrialCommand& command) {
    if (command.poison != 0) {
      const PoisonPattern pattern = command.poison == 1 ? PoisonPattern::kFirst : PoisonPattern::kSecond;
      for (const TrialPoison& output : program_.poisons) Poison(output.type, pattern, output.bytes);
    }
    if (command.restore != 0) {
      for (const TrialCopy& copy : program_.restores) {
        std::memcpy(copy.destination, copy.source.data(), copy.source.size());
      }
    }
    // After the copies, which leave their destinations in the caches.
    if (command.flush != 0) FlushCaches();
  }

  void FlushCaches() {
    // Not before: where nothing is flushed the library's segments need not be looked for.
    if (!flush_) {
      std::vector<MemorySpan> memory = program_.flush_memory;
      for (const MemorySpan& data : StaticDataOf(library_)) memory.push_back(data);
      flush_.emplace(std::move(memory), program_.flush_bytes, DetectLineEviction());
    }
    flush_->Run();
  }

  bool Fail(const char* text) {
    SetText(text == nullptr ? "unknown error" : text);
    return false;
  }

  void SetText(const char* text) {
    const size_t length = std::min(std::strlen(text), sizeof(page_->text) - 1);
    std::memcpy(page_->text, text, length);
    page_->text[length] = '\0';
  }

  void Reply(char reply) {
    if (getpid() != pid_) _exit(1);
    while (write(reply_fd_, &reply, 1) < 0) {
      if (errno != EINTR) _exit(1);
    }
  }

  bool ReadCommand(TrialCommand* command) { return Read(command, sizeof(*command)); }

  bool Read(void* bytes, size_t count) {
    ssize_t got = 0;
    do {
      got = read(command_fd_, bytes, count);
    } while (got < 0 && errno == EINTR);
    return got == static_cast<ssize_t>(count);
  }

  [[noreturn]] void WaitForTheEnd() {
    TrialCommand ignored;
    while (ReadCommand(&ignored)) {
    }
    _exit(0);
  }

  const TrialProgram& program_;
  const pid_t pid_;
  const int command_fd_;
  const int reply_fd_;
  TrialPage* const page_;
  void* library_ = nullptr;
  KernelCalls prepare_;
  KernelCalls launches_;
  std::optional<CacheFlush> flush_;
};

void GatherHeap() {
  // Chunks that were freed lie all over the heap, and the first large allocation of each trial would touch every one.
  (void)malloc_trim(0);
  // The others: whatever is free before the end of the heap is taken, for good, so that trials allocate from there on.
  // They are strung together for the compiler, which would leave out what nobody looks at.
  static void* volatile taken = nullptr;
  const char* const end = static_cast<const char*>(sbrk(0)) - mallinfo2().keepcost;
  constexpr int kChunksMax = 4096;  // of one size; far more than any runner leaves
  for (size_t bytes = 1 << 16; bytes >= 16; bytes = bytes > 1040 ? bytes / 2 : bytes - 16) {
    for (int i = 0; i < kChunksMax; ++i) {
      void** const chunk = static_cast<void**>(malloc(bytes));
      if (chunk == nullptr) return;
      *chunk = taken;
      taken = chunk;
      if (reinterpret_cast<const char*>(chunk) >= end) break;
    }
  }
}

void EnterTrialSurroundings(const TrialProgram& program, pid_t parent, std::array<int, 2> keep, TrialPage* page) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  g_page = page;
  ResetSignals();
  RedirectStandardStreams();
  CloseAllBut({keep[0], keep[1], program.library_fd});
  // Whether the flush walks is known when the binary is loaded, which is later: its static data counts.
  LimitMemory(program.flush_bytes);
  if (program.processes_max > 0) LowerLimit(RLIMIT_NPROC, program.processes_max);
  std::set_new_handler(OnNewFailed);
  (void)on_exit(OnExit, nullptr);
}

void BecomeTrial(const TrialProgram& program, const SeccompFilter& filter, pid_t parent, const TrialEnds& ends) {
  (void)setpgid(0, 0);
  // Not inherited.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // A kernel without filters leaves the namespaces to stand alone, and the worker's level says so.
  if (const int error = filter.Install(); error != 0 && error != EINVAL && error != ENOSYS) _exit(1);
  TrialChild(program, ends).Serve();
}

void RunTrialChild(const TrialProgram& program, const SeccompFilter& filter, pid_t parent, const TrialEnds& ends) {
  EnterTrialSurroundings(program, parent, {ends.command_fd, ends.reply_fd}, ends.page);
  BecomeTrial(program, filter, parent, ends);
}

}  // namespace tunefarm
