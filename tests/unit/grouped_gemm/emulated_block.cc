#include "tests/unit/grouped_gemm/emulated_block.h"

#include <fmt/core.h>
#include <ucontext.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>

namespace tunefarm::emulated {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kCopyBytes = 16;

struct PendingCopy {
  unsigned target;
  const void* source;  // null: zeros
};

enum class State { kRunning, kAtBarrier, kDone };

struct Thread {
  ucontext_t context;
  std::unique_ptr<unsigned char[]> stack;
  Extent index;
  State state = State::kRunning;
  uint64_t exchanges = 0;
  std::vector<PendingCopy> uncommitted;
  std::deque<std::vector<PendingCopy>> committed;
};

struct Warp {
  uint64_t arrivals = 0;
  Words words[2][32];
};

struct Block {
  Extent extent, index, grid;
  Schedule schedule;
  std::vector<unsigned char> shared;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  size_t current = 0;
  ucontext_t caller;
  const std::function<void()>* body = nullptr;
};

struct Range {
  uintptr_t begin, end;
};

Block* g_block = nullptr;
std::vector<Range> g_ranges;
std::vector<std::string> g_faults;

void Fault(std::string sentence) {
  if (g_faults.size() < 16) g_faults.push_back(std::move(sentence));
}

Thread& Current() { return g_block->threads[g_block->current]; }

void SwitchTo(size_t next) {
  const size_t from = g_block->current;
  if (next == from) return;
  g_block->current = next;
  swapcontext(&g_block->threads[from].context, &g_block->threads[next].context);
}

// A thread that may run, warps in the order of the schedule. The number of threads if there is none.
size_t FindRunnable() {
  const size_t count = g_block->threads.size();
  const size_t warps = (count + 31) / 32;
  for (size_t i = 0; i < warps; ++i) {
    const size_t warp = g_block->schedule.warps_backwards ? warps - 1 - i : i;
    for (size_t lane = 0; lane < 32 && warp * 32 + lane < count; ++lane) {
      if (g_block->threads[warp * 32 + lane].state == State::kRunning) return warp * 32 + lane;
    }
  }
  return count;
}

// Lets everybody pass the barrier; threads that have ended count as having arrived.
bool OpenBarrier() {
  bool any = false;
  for (Thread& thread : g_block->threads) {
    if (thread.state != State::kAtBarrier) continue;
    thread.state = State::kRunning;
    any = true;
  }
  return any;
}

void RunThread() {
  (*g_block->body)();
  Thread& thread = Current();
  thread.state = State::kDone;
  size_t next = FindRunnable();
  if (next == g_block->threads.size() && OpenBarrier()) next = FindRunnable();
  if (next == g_block->threads.size()) {
    setcontext(&g_block->caller);
  } else {
    g_block->current = next;
    setcontext(&g_block->threads[next].context);
  }
}

void Perform(const PendingCopy& copy) {
  if (copy.target % kCopyBytes != 0 || copy.target + kCopyBytes > g_block->shared.size()) {
    Fault(fmt::format("a copy to byte {} of {} of shared memory", copy.target, g_block->shared.size()));
    return;
  }
  unsigned char* const target = g_block->shared.data() + copy.target;
  if (copy.source == nullptr) {
    std::memset(target, 0, kCopyBytes);
  } else {
    std::memcpy(target, copy.source, kCopyBytes);
  }
}

bool MayRead(const void* source) {
  const auto begin = reinterpret_cast<uintptr_t>(source);
  if (begin % kCopyBytes != 0) return false;
  for (const Range& range : g_ranges) {
    if (begin >= range.begin && begin + kCopyBytes <= range.end) return true;
  }
  return false;
}

void RunBlock(Block* block) {
  const size_t count = size_t{block->extent.x} * block->extent.y * block->extent.z;
  std::fill(block->shared.begin(), block->shared.end(), static_cast<unsigned char>(0xff));
  block->threads.resize(count);
  block->warps.assign((count + 31) / 32, Warp());
  for (size_t i = 0; i < count; ++i) {
    Thread& thread = block->threads[i];
    if (thread.stack == nullptr) thread.stack = std::make_unique<unsigned char[]>(kStackBytes);
    thread.index = {static_cast<unsigned>(i % block->extent.x), static_cast<unsigned>(i / block->extent.x), 0};
    thread.state = State::kRunning;
    thread.exchanges = 0;
    thread.uncommitted.clear();
    thread.committed.clear();
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, RunThread, 0);
  }
  g_block = block;
  block->current = FindRunnable();
  swapcontext(&block->caller, &block->threads[block->current].context);
  g_block = nullptr;
}

}  // namespace

void RunGrid(Extent grid, Extent block, size_t shared_bytes, const Schedule& schedule,
             const std::function<void()>& body) {
  Block running;
  running.extent = block;
  running.grid = grid;
  running.schedule = schedule;
  running.shared.resize(shared_bytes);
  running.body = &body;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        running.index = {x, y, z};
        RunBlock(&running);
      }
    }
  }
}

void AllowReads(const void* begin, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  g_ranges.push_back({address, address + bytes});
}

void ForgetReads() { g_ranges.clear(); }

std::vector<std::string> TakeFaults() {
  std::vector<std::string> faults;
  faults.swap(g_faults);
  return faults;
}

const Extent& ThreadIndex() { return Current().index; }
const Extent& BlockIndex() { return g_block->index; }
const Extent& BlockExtent() { return g_block->extent; }
const Extent& GridExtent() { return g_block->grid; }
unsigned char* SharedBytes() { return g_block->shared.data(); }

void Barrier() {
  Current().state = State::kAtBarrier;
  size_t next = FindRunnable();
  if (next == g_block->threads.size()) {
    OpenBarrier();
    next = FindRunnable();
  }
  SwitchTo(next);
}

void Copy(unsigned target, const void* source, bool inside) {
  if (inside && !MayRead(source)) {
    Fault("an asynchronous copy reads outside of the operands");
    inside = false;
  }
  const PendingCopy copy = {target, inside ? source : nullptr};
  if (g_block->schedule.copies_late) {
    Current().uncommitted.push_back(copy);
  } else {
    Perform(copy);
  }
}

void Commit() {
  Thread& thread = Current();
  thread.committed.push_back(std::move(thread.uncommitted));
  thread.uncommitted.clear();
}

void Wait(int pending) {
  Thread& thread = Current();
  while (thread.committed.size() > static_cast<size_t>(pending)) {
    for (const PendingCopy& copy : thread.committed.front()) Perform(copy);
    thread.committed.pop_front();
  }
}

const Words* Exchange(const Words& mine) {
  const size_t index = g_block->current;
  Warp& warp = g_block->warps[index / 32];
  Thread& thread = Current();
  const uint64_t round = thread.exchanges++;
  warp.words[round % 2][index % 32] = mine;
  ++warp.arrivals;
  // The other lanes of the warp come to the same place, each in its turn.
  while (warp.arrivals < (round + 1) * 32) {
    const size_t first = index / 32 * 32;
    size_t next = first + (index + 1) % 32;
    while (next != index && g_block->threads[next].state != State::kRunning) next = first + (next + 1) % 32;
    if (next == index) {
      Fault("a warp is not whole where its lanes work together");
      break;
    }
    SwitchTo(next);
  }
  return warp.words[round % 2];
}

}  // namespace tunefarm::emulated
