#include "server/worker/host/unforked_bytes.h"

#include <sys/mman.h>

#include <new>

namespace tunefarm {

void* AllocateUnforked(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    if (const std::new_handler handler = std::get_new_handler()) handler();
    throw std::bad_alloc();
  }
  (void)madvise(memory, bytes, MADV_DONTFORK);
  return memory;
}

void FreeUnforked(void* memory, size_t bytes) { munmap(memory, bytes); }

void ShareWithForks(const UnforkedBytes& bytes) {
  if (bytes.capacity() == 0) return;
  (void)madvise(const_cast<std::byte*>(bytes.data()), bytes.capacity(), MADV_DOFORK);
}

}  // namespace tunefarm
