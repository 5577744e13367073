#include "tests/unit/launch/counted_calls.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "server/sanitizers.h"

namespace tunefarm::launch {
namespace {

constinit thread_local CountedCalls calls;
// Of the library that is left out.
std::atomic<uintptr_t> left_out_begin = 0, left_out_end = 0;

struct Search {
  const char* name;
  uintptr_t begin = UINTPTR_MAX, end = 0;
};

// Finds where the searched library's segments lie.
int Visit(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto* const search = static_cast<Search*>(data);
  if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, search->name) == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    search->begin = std::min(search->begin, begin);
    search->end = std::max(search->end, begin + segment.p_memsz);
  }
  return 1;
}

#if !TUNEFARM_ADDRESS_SANITIZER && !TUNEFARM_THREAD_SANITIZER
bool Counts(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  return address < left_out_begin || address >= left_out_end;
}

void CountAllocation(const void* caller) { calls.allocations += Counts(caller) ? 1 : 0; }

// Counts, and calls the C library's function of this name, which `*next` keeps.
template <typename Lock>
int TakeLock(const void* caller, const char* name, std::atomic<int (*)(Lock*)>* next, Lock* lock) {
  calls.locks += Counts(caller) ? 1 : 0;
  auto* function = next->load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<int (*)(Lock*)>(dlsym(RTLD_NEXT, name));
    next->store(function, std::memory_order_relaxed);  // Any thread finds the same.
  }
  return function(lock);
}

constinit std::atomic<int (*)(pthread_mutex_t*)> mutex_lock = nullptr, mutex_trylock = nullptr;
constinit std::atomic<int (*)(pthread_rwlock_t*)> rwlock_rdlock = nullptr, rwlock_wrlock = nullptr;
constinit std::atomic<int (*)(pthread_spinlock_t*)> spin_lock = nullptr;
#endif

}  // namespace

CountedCalls CallsOfThisThread() { return calls; }

bool CallsAreCounted() { return TUNEFARM_ADDRESS_SANITIZER == 0 && TUNEFARM_THREAD_SANITIZER == 0; }

bool LeaveOutCallsOf(const char* name) {
  Search search = {name};
  if (dl_iterate_phdr(Visit, &search) == 0) return false;
  left_out_begin = search.begin;
  left_out_end = search.end;
  return true;
}

}  // namespace tunefarm::launch

#if !TUNEFARM_ADDRESS_SANITIZER && !TUNEFARM_THREAD_SANITIZER
using tunefarm::launch::CountAllocation;
using tunefarm::launch::TakeLock;

extern "C" {
// As the C library has them by their other names.
void* __libc_malloc(size_t size);                      // NOLINT
void* __libc_calloc(size_t count, size_t size);        // NOLINT
void* __libc_realloc(void* block, size_t size);        // NOLINT
void* __libc_memalign(size_t alignment, size_t size);  // NOLINT

void* malloc(size_t size) noexcept {
  CountAllocation(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
  CountAllocation(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) noexcept {
  CountAllocation(__builtin_return_address(0));
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) noexcept {
  CountAllocation(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  CountAllocation(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  CountAllocation(__builtin_return_address(0));
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  return TakeLock(__builtin_return_address(0), "pthread_mutex_lock", &tunefarm::launch::mutex_lock, mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  return TakeLock(__builtin_return_address(0), "pthread_mutex_trylock", &tunefarm::launch::mutex_trylock, mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  return TakeLock(__builtin_return_address(0), "pthread_rwlock_rdlock", &tunefarm::launch::rwlock_rdlock, lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  return TakeLock(__builtin_return_address(0), "pthread_rwlock_wrlock", &tunefarm::launch::rwlock_wrlock, lock);
}
int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
  return TakeLock(__builtin_return_address(0), "pthread_spin_lock", &tunefarm::launch::spin_lock, lock);
}
}
#endif
