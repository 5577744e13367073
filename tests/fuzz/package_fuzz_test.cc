// The fuzz target of packages without libFuzzer: a good package, damaged, with a good checksum nearly always. For how
// long: fuzz_run.h.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "server/base/random.h"
#include "tests/fuzz/fuzz_run.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm {
namespace {

// With a binary that cannot be loaded, or without one: then kernels load.
std::string GoodPackage(bool has_binary) {
  package::PackageBuilder builder = package::SamplePackage(package::NoBinary(), "a CPU");
  if (!has_binary) {
    for (package::ChoiceRecord& choice : builder.choices) choice.binary = package::kNone;
    for (package::StepRecord& step : builder.steps) {
      step = {};
      step.kind = package::kMemsetStep;
      step.when = builder.Formula("n > 2 and dtype in ('f32', 'bf16') or device.sm_count < min(n, 7, 9)");
      step.memset_buffer = 2;
    }
  }
  return builder.Finish();
}

class PackageMaker {
 public:
  explicit PackageMaker(uint64_t seed) : random_(seed), good_{GoodPackage(false), GoodPackage(true)} {}

  std::string Next() {
    std::string file = good_[random_.UniformInt(4) == 0 ? 1 : 0];
    for (uint64_t damages = 1 + random_.UniformInt(4); damages-- > 0;) Damage(&file);
    if (random_.UniformInt(16) == 0) file.resize(random_.UniformInt(file.size() + 1));
    if (file.size() >= sizeof(package::Header) && random_.UniformInt(16) != 0) package::SetChecksum(&file);
    return file;
  }

 private:
  void Damage(std::string* file) {
    constexpr uint64_t kNumbers[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     8,
                                     64,
                                     255,
                                     0xffff,
                                     0x7fff'ffff,
                                     0x8000'0000,
                                     0xffff'fffe,
                                     0xffff'ffff,
                                     0x7fff'ffff'ffff'ffff,
                                     0x8000'0000'0000'0000,
                                     0xffff'ffff'ffff'ffff};
    // Numbers of 1 to 8 bytes, where a record may have one.
    const size_t bytes = size_t{1} << random_.UniformInt(4);
    const size_t at = random_.UniformInt(file->size() / bytes) * bytes;
    uint64_t number = kNumbers[random_.UniformInt(std::size(kNumbers))];
    switch (random_.UniformInt(4)) {
      case 0:
        (*file)[at] = static_cast<char>(random_.UniformInt(256));
        return;
      case 1:
        std::memcpy(&number, file->data() + at, bytes);
        number += random_.UniformInt(5) - 2;
        break;
      case 2:
        number = random_.UniformInt(file->size());
        break;
      default:
        break;
    }
    std::memcpy(file->data() + at, &number, bytes);
  }

  PhiloxStream random_;
  const std::string good_[2];
};

TEST(PackageFuzz, FindsNothing) {
  FuzzRun run(20'000);
  PackageMaker maker(run.seed());
  run.Try(GoodPackage(false));
  while (run.GoesOn()) run.Try(maker.Next());
}

}  // namespace
}  // namespace tunefarm
