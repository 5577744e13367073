// One forked child that loads a host kernel and runs its launch sequences on command, and the parent's handle on it.
//
// The child shares the buffers with the parent and nothing else that matters: whatever its kernel does to the rest of
// the process is gone with it. What it says is hostile: a reply is only "I am done", and the parent looks at the
// buffers itself. The fork happens in a process with one thread. A hang is the daemon's business: it kills this
// process, and PDEATHSIG the child.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/pidfd.h"
#include "server/base/unique_fd.h"
#include "server/definition/kernel_plan.h"
#include "server/worker/host/kernel_calls.h"

namespace tunefarm {

// Bytes that the child copies over a buffer, or into a constant symbol after load.
struct TrialCopy {
  std::byte* destination = nullptr;  // nullptr: `symbol` says where
  std::string symbol;
  std::span<const std::byte> source;
};

// What a child is to load and run. Everything it points to must outlive the TrialProcess.
struct TrialProgram {
  int library_fd = -1;  // the shared object; -1 if no step calls into one
  std::map<std::string, std::string> lowered_names;
  BufferViews buffers;
  std::vector<StepPlan> prepare;  // run before the steps of kLaunch, untimed
  std::vector<StepPlan> steps;
  std::vector<TrialCopy> symbols;
  std::vector<TrialCopy> restores;  // before each sample that asks for it
  size_t flush_bytes = 0;           // how much memory a cache flush walks
};

// Parent to child.
struct TrialCommand {
  enum Kind : uint32_t {
    kLaunch = 1,  // prepare steps, then one launch sequence
    kWarm = 2,    // `count` launch sequences, restored and flushed like samples if asked to
    kSample = 3,  // one sample of `count` launch sequences
  };
  uint32_t kind = 0;
  uint32_t count = 1;
  uint32_t flush = 0;     // flush the caches first
  uint32_t restore = 0;   // restore first
  uint32_t rehearse = 0;  // one untimed sequence first, so that the caches are warm
};

// What became of a command.
struct TrialReply {
  enum Kind { kDone, kLoadError, kThrew, kOutOfMemory, kDied, kNonsense };
  Kind kind = kNonsense;
  std::string text;             // kLoadError, kThrew: printable ASCII, at most 1 KiB
  ExitStatus exit;              // kDied
  uintptr_t fault_address = 0;  // kDied by SIGSEGV or SIGBUS, if known
  bool fault_address_known = false;
  int64_t nanoseconds = 0;  // kDone of kSample and kWarm: what the child claims; may be anything
};

struct TrialPage;

class TrialProcess {
 public:
  // Forks; the child starts loading at once. Await says how that went.
  static absl::StatusOr<std::unique_ptr<TrialProcess>> Start(const TrialProgram& program);

  // Kills the child's process group and whatever else it left behind, and reaps it.
  ~TrialProcess();
  TrialProcess(const TrialProcess&) = delete;
  TrialProcess& operator=(const TrialProcess&) = delete;

  // Blocks until the child has loaded its binary (first call) or has done what Send asked for, or is dead.
  TrialReply Await();
  void Send(const TrialCommand& command);

 private:
  TrialProcess() = default;
  TrialReply DeadReply();
  std::string PageText() const;

  pid_t pid_ = -1;
  Pidfd pidfd_;
  UniqueFd command_fd_;
  UniqueFd reply_fd_;
  TrialPage* page_ = nullptr;
};

// Kills and reaps every child of this thread: a trial's leftovers, if the process is a child subreaper. Bounded: gives
// up on whoever forks faster than it is killed.
void KillOrphans();

}  // namespace tunefarm
