// Runs one block of a kernel after the other on the CPU: each thread is a context of its own, and whichever may go on
// goes on, in an order that a test chooses. Barriers and what a warp does together are real rendezvous; copies into
// shared memory happen either at once or as late as waiting allows, so that both a copy that overwrites what is still
// read and a read that does not wait for its copy show.
//
// One thread. One block at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tunefarm::emulated {

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

struct Schedule {
  bool copies_late = true;       // at the wait, instead of at the copy
  bool warps_backwards = false;  // the last warp runs first
};

// Runs `body` as every thread of every block of the grid. Shared memory holds NaNs when a block begins.
void RunGrid(Extent grid, Extent block, size_t shared_bytes, const Schedule& schedule,
             const std::function<void()>& body);

// What a kernel may read with asynchronous copies. Reading elsewhere is a failure.
void AllowReads(const void* begin, size_t bytes);
void ForgetReads();
// What went wrong since the last call, one sentence each.
std::vector<std::string> TakeFaults();

// As a thread of the running block sees them.
const Extent& ThreadIndex();
const Extent& BlockIndex();
const Extent& BlockExtent();
const Extent& GridExtent();
unsigned char* SharedBytes();

void Barrier();
void Copy(unsigned target, const void* source, bool inside);
void Commit();
void Wait(int pending);

// What the 32 lanes of the caller's warp have given, by lane; valid until the caller's next rendezvous but one.
struct Words {
  unsigned word[8];
};
const Words* Exchange(const Words& mine);

}  // namespace tunefarm::emulated
