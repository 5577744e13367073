// A thread writes small numbers into the pages that it shares with its judge.
#include "work.h"

#if CHEAT
static uintptr_t pages[16];
static int page_count = 0;

// Small shared mappings that can be written.
static void FindPages() {
  FILE* const maps = fopen("/proc/self/maps", "r");
  if (maps == nullptr) return;
  char line[512];
  while (page_count < 16 && fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long begin = 0, end = 0;
    char access[8] = "";
    if (sscanf(line, "%lx-%lx %7s", &begin, &end, access) != 3) continue;
    if (strcmp(access, "rw-s") == 0 && end - begin <= 8192) pages[page_count++] = begin;
  }
  fclose(maps);
}

static void* Forge(void*) {
  for (;;) {
    for (int i = 0; i < page_count; ++i) {
      volatile int64_t* const words = (volatile int64_t*)pages[i];
      for (int word = 0; word < 65; ++word) {
        if (words[word] > 1000) words[word] = 250;
      }
    }
  }
}

static void Cheat(const float* a, const float* b, float* c, long n) {
  static bool is_started = false;
  if (!is_started) {
    pthread_t thread;
    FindPages();
    if (pthread_create(&thread, nullptr, Forge, nullptr) == 0) pthread_detach(thread);
  }
  is_started = true;
  Work(a, b, c, n);
}
#endif
