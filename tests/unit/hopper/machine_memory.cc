// Copies, stores and matrix products.
#include <string.h>

#include <algorithm>

#include "tests/unit/hopper/machine_state.h"

namespace tunefarm::hopper_machine {
namespace {

uint32_t Swizzled(uint32_t address, int swizzle_bytes) {
  if (swizzle_bytes == 0) return address;
  return address ^ (((address >> 7) & static_cast<uint32_t>(swizzle_bytes / 16 - 1)) << 4);
}

// Calls `visit(shared address of 16 bytes, global address, inside)` for each piece of the box that begins at `at`; the
// last piece of a row may be cut by the tensor's end, which is a multiple of 16 bytes here.
template <typename Visit>
void ForEachPiece(const BoxMap& map, const std::vector<int>& at, uint32_t shared, Visit visit) {
  if (static_cast<int>(at.size()) != map.rank) Fail("coordinates of another rank than the map");
  const uint32_t row_bytes = map.box[0] * map.element_bytes;
  const uint32_t depth = map.rank > 2 ? map.box[2] : 1;
  const uint32_t alignment = map.swizzle_bytes == 0 ? 128 : static_cast<uint32_t>(map.swizzle_bytes) * 8;
  if (shared % std::max(alignment, 128u) != 0) Fail("a box that does not begin with a swizzle pattern");
  for (uint32_t z = 0; z < depth; ++z) {
    for (uint32_t y = 0; y < map.box[1]; ++y) {
      for (uint32_t x = 0; x < map.box[0]; x += 16 / map.element_bytes) {
        const int64_t gx = at[0] + static_cast<int64_t>(x);
        const int64_t gy = at[1] + static_cast<int64_t>(y);
        const int64_t gz = map.rank > 2 ? at[2] + static_cast<int64_t>(z) : 0;
        const bool inside = gx >= 0 && gx < map.dims[0] && gy >= 0 && gy < map.dims[1] &&
                            (map.rank < 3 || (gz >= 0 && gz < map.dims[2]));
        const uint32_t offset = (z * map.box[1] + y) * row_bytes + x * map.element_bytes;
        uint8_t* const global = inside ? map.base + gz * static_cast<int64_t>(map.strides[1]) +
                                             gy * static_cast<int64_t>(map.strides[0]) + gx * map.element_bytes
                                       : nullptr;
        visit(Swizzled(shared + offset, map.swizzle_bytes), global, inside);
      }
    }
  }
}

void AddStore(std::function<void()> work) {
  auto store = std::make_shared<Store>();
  store->work = std::move(work);
  machine->current->open.stores.push_back(store);
  machine->stores.push_back(store);
}

// Where element (row, term) of an operand lies; PTX, "Matrix Descriptor Format" and "Strides".
uint32_t ElementAddress(uint64_t descriptor, bool transposed, int element_bytes, int row, int term) {
  const auto field = [&](int low) { return static_cast<uint32_t>(descriptor >> low & 0x3FFF) << 4; };
  const uint32_t start = field(0);
  const uint32_t leading = field(16);
  const uint32_t stride = field(32);
  const int mode = static_cast<int>(descriptor >> 62);
  const int swizzle = mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 0;
  if (swizzle == 0 || (descriptor >> 46 & 0xFFFF & ~0xC000u) != 0) Fail("a descriptor that the machine does not know");
  uint32_t address;
  if (!transposed) {
    address = start + static_cast<uint32_t>(row / 8) * stride +
              static_cast<uint32_t>(row % 8 * swizzle + term * element_bytes);
  } else {
    if (element_bytes != 2) Fail("an MN-major operand of 8 bits");
    const int chunk = swizzle / 2;
    address = start + static_cast<uint32_t>(row / chunk) * leading + static_cast<uint32_t>(term / 8) * stride +
              static_cast<uint32_t>(term % 8 * swizzle + row % chunk * 2);
  }
  return Swizzled(address, swizzle);
}

void RunProduct(Block& block, int warp, const MatrixProduct& product, float* const (&sums)[32]) {
  const int bytes = product.element_bytes;
  const int terms = 32 / bytes;
  float a[16][32];
  std::vector<float> b(static_cast<size_t>(product.n * terms));
  const auto read = [&](uint64_t descriptor, bool transposed, int row, int term) {
    const uint32_t address = ElementAddress(descriptor, transposed, bytes, row, term);
    CheckFenced(block, address, bytes, "wgmma");
    uint16_t bits = 0;
    memcpy(&bits, SharedPlace(block, address, bytes), static_cast<size_t>(bytes));
    return product.to_float(bits);
  };
  for (int term = 0; term < terms; ++term) {
    for (int row = 0; row < 16; ++row) a[row][term] = read(product.a, product.transpose_a, warp % 4 * 16 + row, term);
    for (int col = 0; col < product.n; ++col)
      b[static_cast<size_t>(col * terms + term)] = read(product.b, product.transpose_b, col, term);
  }
  // PTX, "Register Fragments": lane l has columns 8 j + 2 (l % 4) and the next one, of rows l / 4 and l / 4 + 8.
  for (int lane = 0; lane < 32; ++lane) {
    for (int j = 0; j < product.n / 8; ++j) {
      for (int part = 0; part < 4; ++part) {
        const int row = lane / 4 + part / 2 * 8;
        const int col = j * 8 + lane % 4 * 2 + part % 2;
        float& sum = sums[lane][j * 4 + part];
        float value = product.accumulate ? sum : 0.0f;
        for (int term = 0; term < terms; ++term) value += a[row][term] * b[static_cast<size_t>(col * terms + term)];
        sum = value;
      }
    }
  }
}

}  // namespace

BoxMap MakeBoxMap(void* base, std::vector<uint64_t> dims, std::vector<uint64_t> strides, std::vector<uint32_t> box,
                  int swizzle_bytes, int element_bytes) {
  const auto bytes = static_cast<uint32_t>(element_bytes);
  BoxMap map{
      static_cast<uint8_t*>(base), static_cast<int>(dims.size()), swizzle_bytes, {1, 1, 1}, {1, 1, 1}, {0, 0}, bytes};
  if (dims.size() < 2 || dims.size() > 3 || strides.size() + 1 != dims.size() || box.size() != dims.size()) {
    throw MachineError("a map of another rank");
  }
  if (reinterpret_cast<uintptr_t>(base) % 16 != 0) throw MachineError("a map of a misaligned address");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 || dims[i] > 1ull << 32) throw MachineError("a dimension out of bounds");
    if (box[i] == 0 || box[i] > 256) throw MachineError("a box out of bounds");
    if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= 1ull << 40))
      throw MachineError("a stride out of bounds");
    map.dims[i] = static_cast<uint32_t>(dims[i]);
    map.box[i] = box[i];
    if (i > 0) map.strides[i - 1] = strides[i - 1];
  }
  if (dims[0] * bytes % 16 != 0) throw MachineError("rows that are no multiple of 16 bytes: not simulated");
  if (swizzle_bytes != 0 && box[0] * bytes > static_cast<uint32_t>(swizzle_bytes))
    throw MachineError("a box wider than its swizzle");
  if (box[0] * bytes % 16 != 0) throw MachineError("a box row that is no multiple of 16 bytes");
  return map;
}

void LoadBox(uint32_t target, const BoxMap& map, const std::vector<int>& at, uint32_t barrier, uint32_t blocks) {
  CheckWaited();
  for (size_t rank = 0; rank < machine->blocks.size(); ++rank) {
    Block* const block = blocks == 0 ? machine->current->block : machine->blocks[rank].get();
    if (blocks != 0 && (blocks >> rank & 1) == 0) continue;
    machine->loads.push_back([=] {
      int64_t bytes = 0;
      if (block->alive == 0) Fail("a box for a block that has ended");
      ForEachPiece(map, at, target, [&](uint32_t address, const uint8_t* global, bool inside) {
        unsigned char* const place = SharedPlace(*block, address, 16);
        if (inside) {
          memcpy(place, global, 16);
        } else {
          memset(place, 0, 16);
        }
        bytes += 16;
      });
      Arrive(*block, barrier, 0, -bytes);
    });
    if (blocks == 0) break;
  }
}

void StoreBox(const BoxMap& map, const std::vector<int>& at, uint32_t source) {
  CheckWaited();
  Block* const block = machine->current->block;
  AddStore([=] {
    ForEachPiece(map, at, source, [&](uint32_t address, uint8_t* global, bool inside) {
      CheckFenced(*block, address, 16, "a store of a box");
      if (inside) memcpy(global, SharedPlace(*block, address, 16), 16);
    });
  });
}

void StoreBulk(void* target, uint32_t source, uint32_t bytes) {
  CheckGlobal(target, bytes);
  if (bytes % 16 != 0 || bytes == 0 || source % 16 != 0 || reinterpret_cast<uintptr_t>(target) % 16 != 0) {
    Fail("a misaligned bulk store");
  }
  Block* const block = machine->current->block;
  AddStore([=] {
    CheckFenced(*block, source, static_cast<int>(bytes), "a bulk store");
    memcpy(target, SharedPlace(*block, source, static_cast<int>(bytes)), bytes);
  });
}

void StoreCommit() {
  machine->current->committed.push_back(std::move(machine->current->open));
  machine->current->open = {};
}

void StoreWait(int pending, bool complete) {
  Fiber& fiber = *machine->current;
  if (complete && pending == 0) fiber.groups_complete = fiber.committed.size();
  for (size_t i = 0; i + static_cast<size_t>(pending) < fiber.committed.size(); ++i) {
    for (const auto& store : fiber.committed[i].stores) {
      if (!store->done) store->work();
      store->done = true;
    }
  }
}

void CopyPiece(uint32_t target, const void* source, bool inside, int bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (inside) CheckGlobal(source, size);
  if (reinterpret_cast<uintptr_t>(source) % size != 0) Fail("a misaligned copy");
  Block* const block = machine->current->block;
  machine->current->copies.push_back([=] {
    unsigned char* const place = SharedPlace(*block, target, bytes);
    if (inside) {
      memcpy(place, source, size);
    } else {
      memset(place, 0, size);
    }
    block->writer[(target - kSharedBase) / 16] = kCopiedByThreads;
    block->copied.push_back((target - kSharedBase) / 16);
  });
}

void CopyArrive(uint32_t barrier) {
  Fiber& fiber = *machine->current;
  fiber.bundles.emplace_back(std::move(fiber.copies), barrier);
  fiber.copies.clear();
  machine->copying.push_back(&fiber);
}

void ReadShared(uint32_t address, void* values, int bytes) {
  memcpy(values, SharedPlace(*machine->current->block, address, bytes), static_cast<size_t>(bytes));
}

void WriteShared(uint32_t address, const void* values, int bytes) {
  Block& block = *machine->current->block;
  memcpy(SharedPlace(block, address, bytes), values, static_cast<size_t>(bytes));
  for (int i = 0; i < bytes; i += 16) {
    const size_t piece = (address - kSharedBase + static_cast<uint32_t>(i)) / 16;
    block.writer[piece] = machine->current->thread + 1;
    machine->current->written.push_back(piece);
  }
}

void CheckGlobal(const void* address, size_t bytes) {
  CheckWaited();
  const auto* const begin = static_cast<const uint8_t*>(address);
  for (const Span& span : machine->global) {
    const auto* const first = static_cast<const uint8_t*>(span.begin);
    if (begin >= first && begin + bytes <= first + span.bytes) return;
  }
  Fail("a wild address in global memory");
}

void Wgmma(const MatrixProduct& product, float* sums) {
  Fiber& fiber = *machine->current;
  Warp& warp = *fiber.warp;
  const int lane = fiber.thread % 32;
  if (Exchange(product.a, 0) != product.a || Exchange(product.b, 0) != product.b)
    Fail("descriptors differ within a warp");
  warp.sums[lane] = sums;
  Meet(warp.meeting, 32, "wgmma");
  if (lane == 0) {
    Block* const block = fiber.block;
    const int warp_index = fiber.thread / 32;
    struct Pointers {
      float* values[32];
    } pointers;
    std::copy(warp.sums, warp.sums + 32, pointers.values);
    machine->multiplying.push_back(&warp);
    warp.products.push_back([=] { RunProduct(*block, warp_index, product, pointers.values); });
  }
  Meet(warp.meeting, 32, "wgmma");
}

void WgmmaCommit() {
  Warp& warp = *machine->current->warp;
  Meet(warp.meeting, 32, "wgmma commit");
  if (machine->current->thread % 32 == 0) warp.groups.push_back(warp.products.size());
  Meet(warp.meeting, 32, "wgmma commit");
}

void WgmmaWait(int pending) {
  Warp& warp = *machine->current->warp;
  Meet(warp.meeting, 32, "wgmma wait");
  if (warp.groups.size() > static_cast<size_t>(pending)) {
    RunProducts(warp, warp.groups[warp.groups.size() - 1 - static_cast<size_t>(pending)]);
  }
  Meet(warp.meeting, 32, "wgmma wait");
}

}  // namespace tunefarm::hopper_machine
