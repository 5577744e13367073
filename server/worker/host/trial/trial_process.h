// One forked child that loads a host kernel and runs its launch sequences on command, and the parent's handle on it. It
// may be given one config after another as long as binary, buffers and inputs stay the same.
//
// The child shares the buffers with the parent and nothing else that matters: whatever its kernel does to the rest of
// the process is gone with it. What it says is hostile: a reply is only "I am done", and the parent looks at the
// buffers itself. The fork happens in a process with one thread: this one, or a TrialTemplate, which is made for many.
// A hang is the daemon's business: it kills this process, and PDEATHSIG the child.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/pidfd.h"
#include "server/base/unique_fd.h"
#include "server/worker/host/kernel_calls.h"
#include "server/worker/verify/witness.h"

namespace tunefarm {

// Bytes that the child copies over a buffer, or into a constant symbol after load.
struct TrialCopy {
  std::byte* destination = nullptr;  // nullptr: `symbol` says where
  std::string symbol;
  std::span<const std::byte> source;
};

// An output that the child poisons before samples.
struct TrialPoison {
  tunefarm::v1::DataType type = tunefarm::v1::DATA_TYPE_UNSPECIFIED;
  std::span<std::byte> bytes;
};

// What a child is to load and run. Everything it points to must outlive the TrialProcess.
struct TrialProgram {
  int library_fd = -1;        // the shared object; -1 if no step calls into one
  bool load_at_start = true;  // false: nothing foreign runs before SendConfig
  HostSequences sequences;    // of load_at_start
  std::vector<TrialCopy> symbols;
  std::vector<TrialCopy> restores;   // before each sample that asks for it
  std::vector<TrialPoison> poisons;  // before each sample that asks for it
  // What a cache flush evicts beside the binary's static data: all memory that the kernel is given.
  std::vector<std::span<const std::byte>> flush_memory;
  size_t flush_bytes = 0;      // how much memory it walks where that is cheaper (cache_flush.h); 0: it does nothing
  uint64_t processes_max = 0;  // RLIMIT_NPROC of the child, which counts all of its uid; 0: its parent's
};

// Parent to child.
struct TrialCommand {
  enum Kind : uint32_t {
    kLaunch = 1,   // prepare steps, then one launch sequence
    kWarm = 2,     // `count` launch sequences, restored and flushed like samples if asked to
    kSample = 3,   // `samples` samples of `count` launch sequences each
    kConfig = 4,   // `count` bytes of sequences follow, which take the place of those before
    kPrepare = 5,  // the prepare steps alone
    kStretch = 6,  // the `count`th stretch of one launch sequence
    // Nothing foreign: reads a byte of each cache line of the program's flush_memory, says how long that took, and
    // computes for `count` nanoseconds.
    kBusy = 7,
    kIdle = 8,   // nothing foreign: starts up to `count` threads that sleep until the end
    kMove = 9,   // nothing foreign: the first thread goes to the processor with the number `count`
    kStay = 10,  // the same, and does not leave it
  };
  uint32_t kind = 0;
  uint32_t count = 1;
  uint32_t flush = 0;     // flush the caches first
  uint32_t restore = 0;   // restore first
  uint32_t poison = 0;    // poison the program's outputs first: 1 and 2 are the first and the second pattern
  uint32_t rehearse = 0;  // one untimed sequence before each sample, so that the caches are warm
  uint32_t samples = 1;   // at most kSamplesPerBatchMax
  uint64_t bytes = 0;     // kBusy: of the memory, how many are read at most
};

// What became of a command.
struct TrialReply {
  enum Kind { kDone, kLoadError, kThrew, kOutOfMemory, kDied, kContinued, kNonsense };
  Kind kind = kNonsense;
  std::string text;               // kLoadError, kThrew: printable ASCII, at most 1 KiB
  ExitStatus exit;                // kDied
  bool killed_by_runner = false;  // kDied: it closed its end and went on running
  uintptr_t fault_address = 0;    // kDied by SIGSEGV or SIGBUS, if known
  bool fault_address_known = false;
  int forbidden_syscall = -1;  // kDied by SIGSYS, if known; the child may say anything
  int64_t nanoseconds = 0;     // kDone of kWarm and kBusy: what the child claims; may be anything
};

struct TrialPage;

// What fits into a pipe beside a command, so that a child that does not read holds nobody up.
inline constexpr size_t kTrialConfigBytesMax = 32 << 10;

class TrialProcess {
 public:
  // Forks; the child starts loading at once (Await says how that went) or waits for SendConfig.
  static absl::StatusOr<std::unique_ptr<TrialProcess>> Start(const TrialProgram& program);

  // Kill, and reaps it; kills whatever else it left behind.
  ~TrialProcess();
  TrialProcess(const TrialProcess&) = delete;
  TrialProcess& operator=(const TrialProcess&) = delete;

  // Ends the child's process group without waiting for that.
  void Kill();

  // Blocks until the child has loaded its binary (first call) or has done what Send asked for, or is dead. `when_late`,
  // if any, is called once when that takes longer than `late_after`.
  TrialReply Await(std::chrono::milliseconds late_after = {}, const std::function<void()>& when_late = nullptr);
  void Send(const TrialCommand& command);

  // Stops every thread of the child, wherever it is, and returns when they stand: until Thaw nothing of it sees what
  // happens to the buffers. False if it is dead.
  bool Freeze();
  // Whether nothing has let it run since Freeze: a timer of its own can send it SIGCONT. Once after each Freeze.
  bool HasStood() const;
  void Thaw();
  // For a frozen child: sends the command, thaws it, waits for the answer as Await does, and freezes it again.
  // `time` is set if the child is frozen again: wall_ns is by this process's clock, from before the child could run
  // until it is frozen, not until it answers, because an answer may come before the work is done; waited_ns is what the
  // Linux scheduler counted in that time (0 where it does not count). A child that dies before it is frozen again has
  // not answered; one that ran before its time (kContinued) gets no command.
  TrialReply ObeyFrozen(const TrialCommand& command, std::chrono::milliseconds late_after,
                        const std::function<void()>& when_late, WitnessedTime* time);
  // The number of the processor that its first thread is on or was last; -1: unknown.
  int Processor() const;
  // Threads that it has now, at least 1.
  int ThreadCount() const;
  // After kDone of kSample: what the child claims of each; may be anything.
  std::vector<int64_t> SampleNanoseconds(int samples) const;
  // The child loads its binary, unless it has, serves these sequences (EncodeSequences) from now on and launches them
  // once; one Await says how loading went and, if well, another one the launch. At most kTrialConfigBytesMax.
  void SendConfig(std::string_view sequences);

 private:
  friend class TrialTemplate;

  TrialProcess() = default;
  void Write(const void* bytes, size_t count);
  // Whether something can be read before the time is over; also if that is the end.
  bool SpeaksWithin(std::chrono::milliseconds time) const;
  bool AwaitByte(char* said);  // false: it will say nothing any more
  bool AwaitDeath();
  TrialReply DeadReply();
  std::string PageText() const;

  pid_t pid_ = -1;
  // Only where the child may leave processes behind that hold its end of the replies: else that end closes with it.
  Pidfd pidfd_;
  UniqueFd command_fd_;
  UniqueFd reply_fd_;
  std::shared_ptr<TrialPage> page_;
  bool may_leave_orphans_ = true;
  bool is_killed_ = false;
  bool killed_by_runner_ = false;  // since it did not end by itself
};

// The two pipes of a trial: commands go one way, replies the other. Close-on-exec.
struct TrialPipes {
  absl::Status Open();

  UniqueFd command_read, command_write, reply_read, reply_write;
};

absl::StatusOr<std::shared_ptr<TrialPage>> NewTrialPage();

// Children that are meant to live. ReapChild waits for the end of one and forgets it.
void SpareFromOrphans(pid_t pid);
void ReapChild(pid_t pid);

// Kills and reaps every child of this thread but those: a trial's leftovers, if the process is a child
// subreaper. Bounded: gives up on processes that fork faster than they are killed.
void KillOrphans();

}  // namespace tunefarm
