// The parts of the machine: fibers, barriers, blocks, and operations that wait for their time.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <deque>

#include "tests/unit/hopper/machine.h"

namespace tunefarm::hopper_machine {

constexpr uint32_t kSharedBase = 1024;  // As on the device, where the first KiB belongs to the system.
constexpr int kCopiedByThreads = -1;    // In Block::writer: by cp.async.

struct Fiber;

// Those who wait here.
struct Waiters {
  std::vector<Fiber*> fibers;
};

struct Meeting {
  int arrived = 0;
  int expected = 0;
  uint64_t round = 0;
  Waiters waiters;
};

struct Barrier {
  uint32_t count = 0;
  uint32_t pending = 0;
  int64_t bytes = 0;
  uint32_t phase = 0;
  Waiters waiters;
};

// A store by the copy engine, in the group of the thread that asked for it.
struct Store {
  std::function<void()> work;
  bool done = false;
};
struct StoreGroup {
  std::vector<std::shared_ptr<Store>> stores;
};

struct Block;

struct Warp {
  Meeting meeting;
  uint64_t slots[32];
  float* sums[32];
  // wgmma: operations in order, how many have run, and where the committed groups end.
  std::vector<std::function<void()>> products;
  size_t products_done = 0;
  std::vector<size_t> groups;
};

struct Fiber {
  int thread;
  Block* block;
  Warp* warp;
  bool started = false;
  bool ended = false;
  std::string waits_for;
  jmp_buf state;
  ucontext_t first;
  std::vector<unsigned char> stack;
  std::vector<size_t> written;  // Pieces of 16 bytes since its last proxy fence.
  StoreGroup open;
  std::vector<StoreGroup> committed;
  size_t groups_complete = 0;  // How many of them this thread knows to be made.
  bool has_waited = false;     // for the grid before
  // cp.async: begun copies, and bundles of them, each ending with an arrival at a barrier.
  std::vector<std::function<void()>> copies;
  std::deque<std::pair<std::vector<std::function<void()>>, uint32_t>> bundles;
};

struct Block {
  int index;
  int rank;
  int alive;
  std::vector<unsigned char> memory;
  std::vector<int> writer;     // Per 16 bytes: thread + 1 that wrote since the last fence, or kCopiedByThreads.
  std::vector<size_t> copied;  // Pieces that cp.async wrote.
  unsigned char* shared;       // Aligned to 1024.
  std::map<uint32_t, Barrier> barriers;
  std::map<int, Meeting> named;
  Meeting all;
  std::vector<Warp> warps;
  std::vector<std::unique_ptr<Fiber>> fibers;
};

struct Machine {
  Launch launch;
  std::vector<Span> global;
  // What the grid before leaves in `global`, until a thread has waited for it.
  std::vector<std::vector<unsigned char>> before;
  std::function<void()> body;
  std::vector<std::unique_ptr<Block>> blocks;  // of the cluster that runs
  Meeting cluster;
  std::vector<Fiber*> ready;
  // What may happen at any time: boxes on their way, stores, and an entry of its warp or thread for each wgmma and
  // bundle.
  std::vector<std::function<void()>> loads;
  std::vector<std::shared_ptr<Store>> stores;
  std::vector<Warp*> multiplying;
  std::vector<Fiber*> copying;
  Fiber* current = nullptr;
  jmp_buf scheduler;
  uint64_t random;
  std::string error;

  uint64_t Random();
};

extern Machine* machine;

[[noreturn]] void Fail(const std::string& what);
void BlockOn(Waiters& waiters, const std::string& what);
void Wake(Waiters& waiters);
void Meet(Meeting& meeting, int expected, const std::string& what);
Barrier& BarrierAt(Block& block, uint32_t address);
void Arrive(Block& block, uint32_t address, uint32_t arrivals, int64_t bytes);
unsigned char* SharedPlace(Block& block, uint32_t address, int bytes);
// For wgmma and the copy engine: what ordinary writes left must have been fenced.
void CheckFenced(Block& block, uint32_t address, int bytes, const char* reader);
// What is asked for in global memory may be what the grid before still computes.
void CheckWaited();
void RunProducts(Warp& warp, size_t until);
void RunBundle(Fiber& fiber);

}  // namespace tunefarm::hopper_machine
