#include "server/worker/host/cache_flush.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <new>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tunefarm {
namespace {

// Of the walk. Lines that are longer are touched twice, which does no harm.
constexpr size_t kWalkStepBytes = 64;

size_t BytesOf(const std::vector<MemorySpan>& memory) {
  size_t bytes = 0;
  for (const MemorySpan& span : memory) bytes += span.size();
  return bytes;
}

#if defined(__x86_64__)
void Evict(const std::vector<MemorySpan>& memory, const LineEviction& eviction) {
  for (const MemorySpan& span : memory) {
    if (eviction.kind == LineEviction::kClflushopt) {
      // Not its intrinsic, which wants a function compiled for processors that have it.
      ForEachLine(span, eviction.line_bytes, [](const std::byte* line) {
        asm volatile("clflushopt %0" : : "m"(*line) : "memory");
      });
    } else {
      ForEachLine(span, eviction.line_bytes, [](const std::byte* line) { _mm_clflush(line); });
    }
  }
  // Not sfence, which later loads do not wait for: the kernel's first ones must not pass the evictions.
  _mm_mfence();
}
#else
void Evict(const std::vector<MemorySpan>&, const LineEviction&) {}
#endif

// For dl_iterate_phdr.
struct SegmentSearch {
  ElfW(Addr) base = 0;
  std::vector<MemorySpan> found;
};

int CollectSegments(dl_phdr_info* info, size_t, void* argument) {
  SegmentSearch& search = *static_cast<SegmentSearch*>(argument);
  if (info->dlpi_addr != search.base) return 0;
  for (ElfW(Half) i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_R) == 0 || (segment.p_flags & PF_X) != 0) continue;
    search.found.emplace_back(reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

}  // namespace

LineEviction DetectLineEviction() {
  LineEviction eviction;
#if defined(__x86_64__)
  constexpr unsigned kHasClflush = 1u << 19, kHasClflushopt = 1u << 23;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (edx & kHasClflush) == 0) return eviction;
  const size_t line_bytes = size_t{ebx >> 8 & 0xff} * 8;
  // A caller that does not know its lines is not to be trusted with them.
  if (line_bytes == 0 || (line_bytes & (line_bytes - 1)) != 0) return eviction;
  eviction.line_bytes = line_bytes;
  eviction.kind = LineEviction::kClflush;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kHasClflushopt) != 0) {
    eviction.kind = LineEviction::kClflushopt;
  }
#endif
  return eviction;
}

FlushWay ChooseFlushWay(size_t memory_bytes, size_t walk_bytes, LineEviction::Kind eviction) {
  // On a Xeon with a last level of 105 MiB a line costs 4 ns to evict by clflushopt, 190 ns by clflush, where each
  // waits for the one before, and 7 to 18 ns to walk over. Beyond what is walked over the walk is the cheaper one in
  // any case: its cost does not grow, and twice the last level displaces the larger memory as it does the smaller.
  constexpr size_t kClflushCostsWalked = 16;
  if (walk_bytes == 0) return FlushWay::kNothing;
  size_t evict_at_most = 0;
  if (eviction == LineEviction::kClflushopt) evict_at_most = walk_bytes;
  if (eviction == LineEviction::kClflush) evict_at_most = walk_bytes / kClflushCostsWalked;
  return memory_bytes <= evict_at_most && eviction != LineEviction::kNone ? FlushWay::kEvict : FlushWay::kWalk;
}

std::vector<MemorySpan> StaticDataOf(void* library) {
  const link_map* map = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return {};
  SegmentSearch search;
  search.base = map->l_addr;
  (void)dl_iterate_phdr(CollectSegments, &search);
  return std::move(search.found);
}

CacheFlush::CacheFlush(std::vector<MemorySpan> memory, size_t walk_bytes, LineEviction eviction)
    : memory_(std::move(memory)),
      walk_bytes_(walk_bytes),
      eviction_(eviction),
      way_(ChooseFlushWay(BytesOf(memory_), walk_bytes, eviction.kind)) {}

CacheFlush::~CacheFlush() {
  if (walked_ != nullptr) munmap(const_cast<unsigned char*>(walked_), walk_bytes_);
}

void CacheFlush::Run() {
  if (way_ == FlushWay::kEvict) Evict(memory_, eviction_);
  if (way_ == FlushWay::kWalk) Walk();
}

void CacheFlush::Walk() {
  if (walked_ == nullptr) {
    void* const memory = mmap(nullptr, walk_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    // Every trial's process touches all of it again: in small pages that costs more than the trial.
    (void)madvise(memory, walk_bytes_, MADV_HUGEPAGE);
    walked_ = static_cast<volatile unsigned char*>(memory);
  }
  for (size_t i = 0; i < walk_bytes_; i += kWalkStepBytes) walked_[i] = static_cast<unsigned char>(walked_[i] + 1);
}

}  // namespace tunefarm
