// Memory of the runner that its forks do not get: a problem's inputs and expected outputs may be gigabytes, of which
// each fork would copy the page tables, and a trial could read there what is expected of it. Each allocation is a
// mapping of its own, at least a page.
//
// One thread.
#pragma once

#include <cstddef>
#include <vector>

namespace tunefarm {

// Like operator new and delete: the new-handler or std::bad_alloc without memory.
void* AllocateUnforked(size_t bytes);
void FreeUnforked(void* memory, size_t bytes);

template <typename T>
struct UnforkedAllocator {
  using value_type = T;

  UnforkedAllocator() = default;
  template <typename Other>
  explicit UnforkedAllocator(const UnforkedAllocator<Other>&) {}

  T* allocate(size_t count) { return static_cast<T*>(AllocateUnforked(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) { FreeUnforked(memory, count * sizeof(T)); }

  friend bool operator==(const UnforkedAllocator&, const UnforkedAllocator&) { return true; }
};

using UnforkedBytes = std::vector<std::byte, UnforkedAllocator<std::byte>>;

// Forks from now on get a copy of these.
void ShareWithForks(const UnforkedBytes& bytes);

}  // namespace tunefarm
