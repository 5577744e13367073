// A machine of one cluster at a time, that runs the sm_90a kernels on a host: threads as fibers that are switched at
// random, and the asynchronous parts of a multiprocessor as operations that happen at any time between their begin and
// the wait for them.
//
// It knows what the PTX ISA says of mbarriers, bulk tensor copies with swizzles and multicast, wgmma with matrix
// descriptors, stores by groups, cp.async, named and cluster barriers, proxy fences, and programmatic dependent launch.
// What it cannot show is how fast anything is, and whether the author of this file read the PTX ISA rightly.
//
// Single-threaded. Errors (deadlock, too many arrivals, wild addresses, a missing fence, operations that nobody waited
// for) throw MachineError; the machine is of no use afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tunefarm::hopper_machine {

struct MachineError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What stands in a CUtensorMap's 128 bytes.
struct BoxMap {
  uint8_t* base;
  int rank;
  int swizzle_bytes;  // 0: none
  uint32_t dims[3];
  uint32_t box[3];
  uint64_t strides[2];  // bytes, of dimensions 1 and 2
  uint32_t element_bytes;
};
static_assert(sizeof(BoxMap) <= 128);

// As cuTensorMapEncodeTiled: throws MachineError for what it would refuse. Elements of 1 or 2 bytes.
BoxMap MakeBoxMap(void* base, std::vector<uint64_t> dims, std::vector<uint64_t> strides, std::vector<uint32_t> box,
                  int swizzle_bytes, int element_bytes = 2);

struct Launch {
  int blocks;
  int cluster;
  int threads;
  int shared_bytes;
  uint64_t seed;
  // A programmatic dependent launch: until a thread has waited for the grid before, `global` holds bytes of 0xFF, and
  // each thread waits before it asks for anything in there.
  bool is_dependent = false;
};

// Runs `body` as every thread of every block. Memory outside of `global` may not be touched by copies.
struct Span {
  void* begin;
  size_t bytes;
};
void Run(const Launch& launch, const std::vector<Span>& global, const std::function<void()>& body);

// --- What the thread that runs now may call ---
int ThreadIndex();
int BlockIndex();
int BlockCount();
int ClusterRank();
unsigned char* DynamicShared();
uint32_t SharedAddress(const void* pointer);
[[noreturn]] void Trap();

void WaitForGridBefore();

void WarpSync();
void BlockSync();
void ClusterSync();
void NamedBarrier(int id, int threads);
uint64_t Exchange(uint64_t value, int lane);  // The value of that lane of the warp; all lanes take part.

int CountLanes(bool yes);  // How many lanes of the warp say yes.

void BarrierInit(uint32_t barrier, uint32_t arrivals);
void BarrierArrive(uint32_t barrier, int rank, uint32_t expected_bytes);
void BarrierWait(uint32_t barrier, uint32_t parity);
void FenceProxyAsync();

void LoadBox(uint32_t target, const BoxMap& map, const std::vector<int>& at, uint32_t barrier, uint32_t blocks);
void StoreBox(const BoxMap& map, const std::vector<int>& at, uint32_t source);
void StoreBulk(void* target, uint32_t source, uint32_t bytes);
void StoreCommit();
// Until all but the last `pending` groups have read shared memory or, with `complete`, been made.
void StoreWait(int pending, bool complete);
// cp.async of 4 or 16 bytes.
void CopyPiece(uint32_t target, const void* source, bool inside, int bytes = 16);
void CopyArrive(uint32_t barrier);

void ReadShared(uint32_t address, void* values, int bytes);
void WriteShared(uint32_t address, const void* values, int bytes);
void CheckGlobal(const void* address, size_t bytes);

struct MatrixProduct {
  int n;
  bool transpose_a;
  bool transpose_b;
  uint64_t a;
  uint64_t b;
  bool accumulate;
  int element_bytes;            // 1 or 2; of each row 32 bytes are multiplied
  float (*to_float)(uint16_t);  // of an operand's bits
};
// The accumulators of this thread; all lanes of the warp take part.
void Wgmma(const MatrixProduct& product, float* sums);
void WgmmaCommit();
void WgmmaWait(int pending);

}  // namespace tunefarm::hopper_machine
