// Fibers, barriers and the scheduler.
#undef _FORTIFY_SOURCE  // Its longjmp takes another fiber's stack for a damaged one.
#include "tests/unit/hopper/machine.h"

#include <string.h>

#include "tests/unit/hopper/machine_state.h"

namespace tunefarm::hopper_machine {

Machine* machine = nullptr;

uint64_t Machine::Random() {
  random = random * 6364136223846793005ull + 1442695040888963407ull;
  uint64_t x = random >> 17;
  x ^= x >> 13;
  return x * 0x9E3779B97F4A7C15ull >> 20;
}

void Fail(const std::string& what) {
  Fiber* const fiber = machine->current;
  std::string text = what;
  if (fiber != nullptr) {
    text = "block " + std::to_string(fiber->block->index) + " thread " + std::to_string(fiber->thread) + ": " + text;
  }
  if (fiber == nullptr) throw MachineError(text);
  machine->error = text;  // No exception crosses fibers: the scheduler throws it.
  _longjmp(machine->scheduler, 1);
}

void BlockOn(Waiters& waiters, const std::string& what) {
  Fiber* const fiber = machine->current;
  fiber->waits_for = what;
  waiters.fibers.push_back(fiber);
  if (_setjmp(fiber->state) == 0) _longjmp(machine->scheduler, 1);
}

void Wake(Waiters& waiters) {
  for (Fiber* fiber : waiters.fibers) machine->ready.push_back(fiber);
  waiters.fibers.clear();
}

void Meet(Meeting& meeting, int expected, const std::string& what) {
  if (meeting.arrived > 0 && meeting.expected != expected) Fail(what + ": different numbers of threads");
  meeting.expected = expected;
  if (++meeting.arrived < expected) {
    const uint64_t round = meeting.round;
    while (meeting.round == round) BlockOn(meeting.waiters, what);
    return;
  }
  meeting.arrived = 0;
  ++meeting.round;
  Wake(meeting.waiters);
}

unsigned char* SharedPlace(Block& block, uint32_t address, int bytes) {
  if (address < kSharedBase || address + bytes > kSharedBase + machine->launch.shared_bytes) {
    Fail("address " + std::to_string(address) + " is outside of shared memory");
  }
  if (address % (bytes >= 16 ? 16 : bytes) != 0) Fail("misaligned address " + std::to_string(address));
  return block.shared + (address - kSharedBase);
}

void CheckFenced(Block& block, uint32_t address, int bytes, const char* reader) {
  for (uint32_t i = (address - kSharedBase) / 16; i <= (address - kSharedBase + bytes - 1) / 16; ++i) {
    if (block.writer[i] != 0) Fail(std::string(reader) + " reads what was written without a proxy fence");
  }
}

Barrier& BarrierAt(Block& block, uint32_t address) {
  const auto found = block.barriers.find(address);
  if (found == block.barriers.end()) Fail("no barrier at " + std::to_string(address));
  return found->second;
}

void Arrive(Block& block, uint32_t address, uint32_t arrivals, int64_t bytes) {
  if (block.alive == 0) Fail("arrival at a barrier of a block that has ended");
  Barrier& barrier = BarrierAt(block, address);
  if (arrivals > barrier.pending) Fail("too many arrivals at barrier " + std::to_string(address));
  barrier.pending -= arrivals;
  barrier.bytes += bytes;
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.count;
  Wake(barrier.waiters);
}

void RunProducts(Warp& warp, size_t until) {
  while (warp.products_done < until) warp.products[warp.products_done++]();
}

void RunBundle(Fiber& fiber) {
  for (const auto& copy : fiber.bundles.front().first) copy();
  Arrive(*fiber.block, fiber.bundles.front().second, 1, 0);
  fiber.bundles.pop_front();
}

namespace {

void FiberMain() {
  machine->body();
  Fiber* const fiber = machine->current;
  for (size_t i = fiber->groups_complete; i < fiber->committed.size(); ++i) {
    if (!fiber->committed[i].stores.empty()) Fail("a store that nobody waited for");
  }
  fiber->ended = true;
  --fiber->block->alive;
  _longjmp(machine->scheduler, 1);
}

void Resume(Fiber* fiber) {
  machine->current = fiber;
  if (_setjmp(machine->scheduler) == 0) {
    if (fiber->started) _longjmp(fiber->state, 1);
    fiber->started = true;
    setcontext(&fiber->first);
  }
  machine->current = nullptr;
  if (!machine->error.empty()) throw MachineError(machine->error);
}

// Takes one out, at random.
template <typename T>
T Draw(std::vector<T>& items) {
  const size_t index = machine->Random() % items.size();
  T item = std::move(items[index]);
  items[index] = std::move(items.back());
  items.pop_back();
  return item;
}

// Lets something asynchronous happen; false when nothing is on its way.
bool StepAsynchronously() {
  const uint64_t choice = machine->Random();
  for (uint64_t i = 0; i < 4; ++i) {
    switch ((choice + i) % 4) {
      case 0:
        if (machine->loads.empty()) break;
        Draw(machine->loads)();
        return true;
      case 1:
        while (!machine->stores.empty()) {
          const std::shared_ptr<Store> store = Draw(machine->stores);
          if (store->done) continue;
          store->work();
          store->done = true;
          return true;
        }
        break;
      case 2:
        while (!machine->multiplying.empty()) {
          Warp* const warp = Draw(machine->multiplying);
          if (warp->products_done == warp->products.size()) continue;
          RunProducts(*warp, warp->products_done + 1);
          return true;
        }
        break;
      default:
        if (machine->copying.empty()) break;
        RunBundle(*Draw(machine->copying));
        return true;
    }
  }
  return false;
}

std::string Deadlock() {
  std::map<std::string, std::vector<int>> waits;
  for (const auto& block : machine->blocks) {
    for (const auto& fiber : block->fibers) {
      if (!fiber->ended)
        waits["block " + std::to_string(block->index) + " " + fiber->waits_for].push_back(fiber->thread);
    }
  }
  std::string text = "deadlock:";
  for (const auto& [what, threads] : waits) {
    text += "\n  " + what + ": threads " + std::to_string(threads.front()) + ".." + std::to_string(threads.back()) +
            " (" + std::to_string(threads.size()) + ")";
  }
  return text;
}

void CheckEnd() {
  for (const auto& block : machine->blocks) {
    for (Warp& warp : block->warps) {
      if (warp.products_done != warp.products.size()) throw MachineError("a wgmma that nobody waited for");
    }
    for (const auto& fiber : block->fibers) {
      if (!fiber->bundles.empty() || !fiber->copies.empty()) throw MachineError("copies that nobody waited for");
      if (!fiber->open.stores.empty()) throw MachineError("stores without a group");
    }
  }
  if (!machine->loads.empty()) throw MachineError("a box that nobody waited for");
  if (!machine->before.empty()) throw MachineError("a grid that nobody waited for");
}

// Apart from its caller because getcontext returns twice, as far as the compiler knows.
[[gnu::noinline]] void PrepareFiber(Fiber& fiber, Block& block, int thread) {
  fiber.thread = thread;
  fiber.block = &block;
  fiber.warp = &block.warps[static_cast<size_t>(thread) / 32];
  fiber.stack.resize(65536);
  getcontext(&fiber.first);
  fiber.first.uc_stack.ss_sp = fiber.stack.data();
  fiber.first.uc_stack.ss_size = fiber.stack.size();
  fiber.first.uc_link = nullptr;
  makecontext(&fiber.first, FiberMain, 0);
  machine->ready.push_back(&fiber);
}

std::unique_ptr<Block> MakeBlock(const Launch& launch, int index) {
  auto block = std::make_unique<Block>();
  block->index = index;
  block->rank = index % launch.cluster;
  block->alive = launch.threads;
  block->memory.assign(static_cast<size_t>(launch.shared_bytes) + 1024, 0xFF);  // NaN where nothing was written.
  block->writer.assign(static_cast<size_t>(launch.shared_bytes) / 16 + 1, 0);
  block->shared = block->memory.data() + (1024 - reinterpret_cast<uintptr_t>(block->memory.data()) % 1024);
  block->warps.resize(static_cast<size_t>(launch.threads) / 32);
  for (int thread = 0; thread < launch.threads; ++thread) {
    block->fibers.push_back(std::make_unique<Fiber>());
    PrepareFiber(*block->fibers.back(), *block, thread);
  }
  return block;
}

void RunCluster() {
  // How eager the asynchronous parts are is a matter of the seed: never before they must, often, or now and then.
  const uint64_t eagerness = machine->Random() % 3;
  for (;;) {
    const bool asynchronous = eagerness != 0 && machine->Random() % (eagerness == 1 ? 3 : 40) == 0;
    if (asynchronous) StepAsynchronously();
    if (machine->ready.empty()) {
      if (StepAsynchronously()) continue;
      break;
    }
    const size_t index = machine->Random() % machine->ready.size();
    Fiber* const fiber = machine->ready[index];
    machine->ready[index] = machine->ready.back();
    machine->ready.pop_back();
    Resume(fiber);
  }
  for (const auto& block : machine->blocks) {
    if (block->alive > 0) throw MachineError(Deadlock());
  }
}

}  // namespace

void Run(const Launch& launch, const std::vector<Span>& global, const std::function<void()>& body) {
  Machine state;
  state.launch = launch;
  state.global = global;
  state.body = body;
  state.random = launch.seed * 2654435761u + 12345;
  machine = &state;
  if (launch.is_dependent) {
    for (const Span& span : global) {
      auto* const bytes = static_cast<unsigned char*>(span.begin);
      state.before.emplace_back(bytes, bytes + span.bytes);
      std::fill_n(bytes, span.bytes, 0xFF);
    }
  }
  for (int first = 0; first < launch.blocks; first += launch.cluster) {
    state.blocks.clear();
    state.ready.clear();
    state.stores.clear();
    state.multiplying.clear();
    state.cluster = {};
    for (int rank = 0; rank < launch.cluster; ++rank) state.blocks.push_back(MakeBlock(launch, first + rank));
    RunCluster();
    CheckEnd();
  }
  machine = nullptr;
}

int ThreadIndex() { return machine->current->thread; }
int BlockIndex() { return machine->current->block->index; }
int BlockCount() { return machine->launch.blocks; }
int ClusterRank() { return machine->current->block->rank; }
unsigned char* DynamicShared() { return machine->current->block->shared; }
uint32_t SharedAddress(const void* pointer) {
  return kSharedBase +
         static_cast<uint32_t>(static_cast<const unsigned char*>(pointer) - machine->current->block->shared);
}
void Trap() { Fail("trap"); }

void WaitForGridBefore() {
  machine->current->has_waited = true;
  for (size_t i = 0; i < machine->before.size(); ++i) {
    std::copy(machine->before[i].begin(), machine->before[i].end(),
              static_cast<unsigned char*>(machine->global[i].begin));
  }
  machine->before.clear();
}

void CheckWaited() {
  if (machine->launch.is_dependent && !machine->current->has_waited) Fail("memory of the grid before without a wait");
}

void WarpSync() { Meet(machine->current->warp->meeting, 32, "warp"); }
void BlockSync() { Meet(machine->current->block->all, machine->launch.threads, "block barrier"); }
void ClusterSync() { Meet(machine->cluster, machine->launch.threads * machine->launch.cluster, "cluster barrier"); }
void NamedBarrier(int id, int threads) {
  if (id < 1 || id > 15) Fail("no barrier of this number");
  Meet(machine->current->block->named[id], threads, "named barrier " + std::to_string(id));
}

uint64_t Exchange(uint64_t value, int lane) {
  Warp& warp = *machine->current->warp;
  warp.slots[machine->current->thread % 32] = value;
  Meet(warp.meeting, 32, "shuffle");
  const uint64_t result = warp.slots[lane & 31];
  Meet(warp.meeting, 32, "shuffle");
  return result;
}

int CountLanes(bool yes) {
  Warp& warp = *machine->current->warp;
  warp.slots[machine->current->thread % 32] = yes ? 1 : 0;
  Meet(warp.meeting, 32, "ballot");
  int count = 0;
  for (const uint64_t slot : warp.slots) count += static_cast<int>(slot);
  Meet(warp.meeting, 32, "ballot");
  return count;
}

void BarrierInit(uint32_t barrier, uint32_t arrivals) {
  Block& block = *machine->current->block;
  SharedPlace(block, barrier, 8);
  block.barriers[barrier] = Barrier{arrivals, arrivals, 0, 0, {}};
}

void BarrierArrive(uint32_t barrier, int rank, uint32_t expected_bytes) {
  Block& block = rank < 0 ? *machine->current->block : *machine->blocks.at(static_cast<size_t>(rank));
  Arrive(block, barrier, 1, expected_bytes);
}

void BarrierWait(uint32_t barrier, uint32_t parity) {
  Barrier& place = BarrierAt(*machine->current->block, barrier);
  while (place.phase == (parity & 1)) {
    BlockOn(place.waiters, "mbarrier " + std::to_string(barrier) + " parity " + std::to_string(parity) + " pending " +
                               std::to_string(place.pending) + " bytes " + std::to_string(place.bytes));
  }
}

void FenceProxyAsync() {
  Block& block = *machine->current->block;
  const auto clear = [&](std::vector<size_t>& pieces, int writer) {
    for (const size_t piece : pieces) {
      if (block.writer[piece] == writer) block.writer[piece] = 0;
    }
    pieces.clear();
  };
  clear(machine->current->written, machine->current->thread + 1);
  clear(block.copied, kCopiedByThreads);
}

}  // namespace tunefarm::hopper_machine
