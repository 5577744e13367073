#include "server/worker/host/trial/trial_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>
#include <utility>

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/host/trial/trial_child.h"
#include "server/worker/sandbox/seccomp_filter.h"
#include "server/worker/verify/thread_times.h"

namespace tunefarm {
namespace {

constexpr int kOrphanRoundsMax = 64;
// From the end of a process's connection to its own end; one that only closed its end is given no more.
constexpr int kDyingMsMax = 500;
// A process that still lives so long after SIGKILL will not die.
constexpr int kDeathMsMax = 10'000;
// How often the first thread of a frozen process gets a processor until it answers a command without having slept:
// once, when it is continued. It gets one again to be stopped, if it waits for the next command by then.
constexpr int64_t kRunsUntilAnswer = 1;

// Our children that are no orphans, in the one thread that makes them.
std::vector<pid_t>& LivePids() {
  static std::vector<pid_t> pids;
  return pids;
}

// The children of this thread, as the kernel lists them.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  const absl::StatusOr<std::string> text = ReadFile("/proc/thread-self/children", 1 << 20);
  if (!text.ok()) return children;
  const char* next = text->data();
  const char* const end = next + text->size();
  while (next < end) {
    pid_t pid = 0;
    const std::from_chars_result read = std::from_chars(next, end, pid);
    if (read.ec != std::errc()) break;
    children.push_back(pid);
    next = read.ptr;
    while (next < end && *next == ' ') ++next;
  }
  return children;
}

// A child can write into all of what is mapped for a TrialPage, also behind its fields.
size_t TrialPageBytes() {
  static const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (sizeof(TrialPage) + page_bytes - 1) / page_bytes * page_bytes;
}

// Times of a child. `busy_ns` is exact while the child is frozen.
struct ChildTimes {
  explicit ChildTimes(pid_t child) : first(FirstThreadTimes(child)) {
    clockid_t clock = 0;
    timespec busy = {};
    if (clock_getcpuclockid(child, &clock) == 0 && clock_gettime(clock, &busy) == 0) {
      busy_ns = busy.tv_sec * 1'000'000'000 + busy.tv_nsec;
    }
  }

  ThreadTimes first;    // the child's first thread
  int64_t busy_ns = 0;  // of all threads of the child
};

}  // namespace

absl::Status TrialPipes::Open() {
  for (const auto& [read_end, write_end] :
       {std::pair(&command_read, &command_write), std::pair(&reply_read, &reply_write)}) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "no pipe to a trial");
    read_end->Reset(fds[0]);
    write_end->Reset(fds[1]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<TrialPage>> NewTrialPage() {
  void* const page = mmap(nullptr, TrialPageBytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return ErrnoStatus(errno, "no memory for a trial's control page");
  return std::shared_ptr<TrialPage>(new (page) TrialPage, [](TrialPage* ours) { munmap(ours, TrialPageBytes()); });
}

void ReapChild(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  std::erase(LivePids(), pid);
}

void SpareFromOrphans(pid_t pid) { LivePids().push_back(pid); }

absl::StatusOr<std::unique_ptr<TrialProcess>> TrialProcess::Start(const TrialProgram& program) {
  // Compiled once: every trial gets the same.
  static const absl::StatusOr<SeccompFilter> filter = SeccompFilter::Build(SeccompProfile::kTrial);
  RETURN_IF_ERROR(filter.status());
  std::unique_ptr<TrialProcess> process(new TrialProcess);
  ASSIGN_OR_RETURN(process->page_, NewTrialPage());
  TrialPipes pipes;
  RETURN_IF_ERROR(pipes.Open());
  // The reading end of the commands lives in the child alone, whose death must not be ours.
  (void)signal(SIGPIPE, SIG_IGN);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "cannot fork a trial");
  if (pid == 0) {
    const TrialEnds ends = {pipes.command_read.get(), pipes.reply_write.get(), process->page_.get()};
    RunTrialChild(program, *filter, parent, ends);
  }
  process->pid_ = pid;
  process->command_fd_ = std::move(pipes.command_write);
  process->reply_fd_ = std::move(pipes.reply_read);
  SpareFromOrphans(pid);
  // Both sides do it, so that it holds for whichever comes first.
  (void)setpgid(pid, pid);
  ASSIGN_OR_RETURN(process->pidfd_, Pidfd::Open(pid));
  return process;
}

TrialProcess::~TrialProcess() {
  if (pid_ <= 0) return;
  Kill();
  ReapChild(pid_);
  if (may_leave_orphans_) KillOrphans();
}

void TrialProcess::Kill() {
  if (std::exchange(is_killed_, true)) return;
  // The leader is not reaped yet, so neither number can have been given to somebody else.
  (void)kill(-pid_, SIGKILL);
  (void)kill(pid_, SIGKILL);
}

std::vector<int64_t> TrialProcess::SampleNanoseconds(int samples) const {
  std::vector<int64_t> claimed;
  for (int i = 0; i < std::min(samples, kSamplesPerBatchMax); ++i) {
    claimed.push_back(page_->sample_nanoseconds[static_cast<size_t>(i)].load(std::memory_order_acquire));
  }
  return claimed;
}

void TrialProcess::Send(const TrialCommand& command) { Write(&command, sizeof(command)); }

bool TrialProcess::Freeze() {
  siginfo_t info = {};
  // What Thaw did is no event of the child's.
  (void)waitid(P_PID, static_cast<id_t>(pid_), &info, WCONTINUED | WNOHANG);
  if (kill(-pid_, SIGSTOP) != 0 && kill(pid_, SIGSTOP) != 0) return false;
  // WNOWAIT leaves the zombie of one that died to the destructor.
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WCONTINUED | WEXITED | WNOWAIT) < 0) {
    if (errno != EINTR) return false;
  }
  // It runs again already; HasStood finds that.
  if (info.si_code == CLD_CONTINUED) return true;
  if (info.si_code != CLD_STOPPED) return false;
  // What can be waited for from now on happens after this.
  (void)waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG);
  return true;
}

bool TrialProcess::HasStood() const {
  // A process that was continued and then stopped itself reports a second stop. Linux looks for the stop first and then
  // for the continuation: a look misses both if it stops in between, and the next one finds the stop.
  constexpr int kLooks = 2;
  const int events = WSTOPPED | WCONTINUED | WEXITED | WNOHANG | WNOWAIT;
  for (int look = 0; look < kLooks; ++look) {
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, events) != 0 || info.si_pid != 0) return false;
  }
  return true;
}

void TrialProcess::Thaw() {
  if (kill(-pid_, SIGCONT) != 0) (void)kill(pid_, SIGCONT);
}

TrialReply TrialProcess::ObeyFrozen(const TrialCommand& command, std::chrono::milliseconds late_after,
                                    const std::function<void()>& when_late, WitnessedTime* time) {
  if (!HasStood()) {
    TrialReply reply;
    reply.kind = TrialReply::kContinued;
    return reply;
  }
  const ChildTimes before(pid_);
  // It cannot read the command before it is thawed.
  Send(command);
  const MonotonicTime start = Clock::Real()->Now();
  Thaw();
  // While this thread waits before it sleeps the child works: such a wait lengthens nothing.
  const int64_t own_waits_ns = OwnThreadTimes().waited_ns;
  TrialReply reply = Await(late_after, when_late);
  if (reply.kind != TrialReply::kDone) return reply;
  const int64_t runs = FirstThreadTimes(pid_).runs - before.first.runs;
  // Its threads may work until they stand, and a thread in a long system call delays that for all of them.
  if (!Freeze()) return AwaitDeath() ? DeadReply() : TrialReply();
  const MonotonicTime end = Clock::Real()->Now();
  const int64_t waited_ns = OwnThreadTimes().waited_ns - own_waits_ns;
  const ChildTimes frozen(pid_);
  *time = WitnessedTime();
  time->wall_ns = static_cast<double>((end - start).count());
  time->waited_ns = static_cast<double>(frozen.first.waited_ns - before.first.waited_ns + waited_ns);
  time->busy_ns = static_cast<double>(frozen.busy_ns - before.busy_ns);
  time->others_busy_ns = time->busy_ns - static_cast<double>(frozen.first.busy_ns - before.first.busy_ns);
  time->ran_through = runs == kRunsUntilAnswer;
  return reply;
}

int TrialProcess::Processor() const { return LastProcessor(pid_); }

int TrialProcess::ThreadCount() const {
  // The directory has two links of its own and one for each thread.
  struct stat status = {};
  const std::string path = "/proc/" + std::to_string(pid_) + "/task";
  return stat(path.c_str(), &status) == 0 ? std::max(static_cast<int>(status.st_nlink) - 2, 1) : 1;
}

void TrialProcess::SendConfig(std::string_view sequences) {
  TUNEFARM_CHECK(sequences.size() <= kTrialConfigBytesMax);
  // It may be the page of a trial before, which is dead and must leave nothing to this one.
  std::memset(static_cast<void*>(page_.get()), 0, TrialPageBytes());
  new (page_.get()) TrialPage;
  TrialCommand command;
  command.kind = TrialCommand::kConfig;
  command.count = static_cast<uint32_t>(sequences.size());
  // In one piece: a child that reads a command finds all of it, and need not be woken twice.
  std::string bytes(reinterpret_cast<const char*>(&command), sizeof(command));
  bytes += sequences;
  command = TrialCommand();
  command.kind = TrialCommand::kLaunch;
  bytes.append(reinterpret_cast<const char*>(&command), sizeof(command));
  Write(bytes.data(), bytes.size());
}

void TrialProcess::Write(const void* bytes, size_t count) {
  // Never ahead of the child and smaller than the pipe, so this cannot block; a dead child shows in Await.
  while (write(command_fd_.get(), bytes, count) < 0 && errno == EINTR) {
  }
}

bool TrialProcess::AwaitByte(char* said) {
  while (pidfd_.valid()) {
    pollfd fds[2] = {{reply_fd_.get(), POLLIN, 0}, {pidfd_.fd(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno == EINTR) continue;
    // What the child said before it died comes first.
    if ((fds[0].revents & POLLIN) != 0) break;
    return false;
  }
  ssize_t got = 0;
  do {
    got = read(reply_fd_.get(), said, 1);
  } while (got < 0 && errno == EINTR);
  return got == 1;
}

bool TrialProcess::SpeaksWithin(std::chrono::milliseconds time) const {
  // A signal that cuts it short makes the child late too early, which costs nothing but a message.
  pollfd fds[2] = {{reply_fd_.get(), POLLIN, 0}, {pidfd_.fd(), POLLIN, 0}};
  return poll(fds, pidfd_.valid() ? 2 : 1, static_cast<int>(time.count())) > 0;
}

TrialReply TrialProcess::Await(std::chrono::milliseconds late_after, const std::function<void()>& when_late) {
  TrialReply reply;
  if (when_late != nullptr && !SpeaksWithin(late_after)) when_late();
  char said = 0;
  if (!AwaitByte(&said)) {
    // It is dead or about to die. If it only closed its end and lives on, nothing more can come of it.
    return AwaitDeath() ? DeadReply() : reply;
  }
  switch (said) {
    case kTrialDone:
      reply.kind = TrialReply::kDone;
      reply.nanoseconds = page_->nanoseconds.load(std::memory_order_acquire);
      break;
    case kTrialLoadError:
      reply.kind = TrialReply::kLoadError;
      reply.text = PageText();
      break;
    case kTrialThrew:
      reply.kind = TrialReply::kThrew;
      reply.text = PageText();
      break;
    case kTrialOutOfMemory:
      reply.kind = TrialReply::kOutOfMemory;
      break;
    default:
      break;
  }
  return reply;
}

// What it is dying of stands when its descriptors close: a signal then changes nothing.
bool TrialProcess::AwaitDeath() {
  if (!pidfd_.valid()) {
    absl::StatusOr<Pidfd> pidfd = Pidfd::Open(pid_);
    if (!pidfd.ok()) return false;
    pidfd_ = *std::move(pidfd);
  }
  pollfd end = {pidfd_.fd(), POLLIN, 0};
  while (poll(&end, 1, kDyingMsMax) < 0 && errno == EINTR) {
  }
  if (end.revents != 0) return true;
  killed_by_runner_ = true;
  (void)kill(-pid_, SIGKILL);
  while (poll(&end, 1, kDeathMsMax) < 0 && errno == EINTR) {
  }
  return end.revents != 0;
}

TrialReply TrialProcess::DeadReply() {
  TrialReply reply;
  reply.kind = TrialReply::kDied;
  reply.killed_by_runner = killed_by_runner_ || is_killed_;
  // WNOWAIT leaves the zombie to the destructor, which needs the process group to exist until it has killed it.
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  reply.exit.exited = info.si_code == CLD_EXITED;
  (reply.exit.exited ? reply.exit.exit_code : reply.exit.signal) = info.si_status;
  // A bad_alloc that left a noexcept function ends in abort().
  const bool aborted = !reply.exit.exited && reply.exit.signal == SIGABRT;
  if (aborted && page_->out_of_memory.load(std::memory_order_acquire) != 0) reply.kind = TrialReply::kOutOfMemory;
  reply.fault_address_known = page_->faulted.load(std::memory_order_acquire) != 0;
  reply.fault_address = page_->fault_address.load(std::memory_order_acquire);
  reply.forbidden_syscall = page_->forbidden_syscall.load(std::memory_order_acquire);
  return reply;
}

std::string TrialProcess::PageText() const {
  std::string text;
  for (size_t i = 0; i < sizeof(page_->text); ++i) {
    // Read once: the child may still be changing it.
    const char c = const_cast<const volatile char&>(page_->text[i]);
    if (c == '\0') break;
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

void KillOrphans() {
  for (int round = 0; round < kOrphanRoundsMax; ++round) {
    std::vector<pid_t> children = Children();
    for (const pid_t live : LivePids()) std::erase(children, live);
    if (children.empty()) return;
    for (const pid_t child : children) {
      (void)kill(child, SIGKILL);
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
}

}  // namespace tunefarm
