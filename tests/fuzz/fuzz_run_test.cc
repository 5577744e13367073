// What is left of an input that a fuzz target dies of.
#include "tests/fuzz/fuzz_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "server/base/file.h"
#include "server/sanitizers.h"
#include "tests/fakes/temporary_directory.h"

namespace {

// Too deep for any stack.
int Descend(int levels) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(levels);
  return levels == 0 ? 0 : Descend(levels - 1) + frame[0];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text == "deep") return Descend(1 << 28);
  if (text == "abort") std::abort();
  return 0;
}

namespace tunefarm {
namespace {

void Die(const char* last) {
  FuzzRun run(1);
  run.Try("harmless");
  run.Try(last);
}

TEST(FuzzRunDeathTest, TheInputStays) {
#if TUNEFARM_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer handles signals when it likes";
#endif
  TemporaryDirectory directory;
  ASSERT_EQ(chdir(directory.path().c_str()), 0);
  const std::string file = std::string(program_invocation_short_name) + "_finding.bin";
  for (const char* input : {"deep", "abort"}) {
    EXPECT_DEATH(Die(input), "the input is in " + file);
    EXPECT_EQ(ReadFile(directory.File(file), 100).value_or("none"), input);
  }
  ASSERT_EQ(chdir("/"), 0);
}

}  // namespace
}  // namespace tunefarm
