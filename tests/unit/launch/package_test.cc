#include "client/launch/package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "server/base/file.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/launch/read_all.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::launch {
namespace {

using package::PackageBuilder;
using testing::HasSubstr;

PackageBuilder Sample() { return package::SamplePackage(package::NoBinary(), "a CPU"); }

// The status and what is said; OK and nothing for a good file, all of which is then read.
std::pair<tunefarm_status, std::string> Open(const std::string& bytes) {
  std::shared_ptr<const Package> package;
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  const tunefarm_status status = Package::Copy(bytes.data(), bytes.size(), &package, &error);
  EXPECT_EQ(package != nullptr, status == TUNEFARM_OK);
  if (package != nullptr) ReadAll(*package);
  return {status, error.message};
}

void ExpectRefused(const PackageBuilder& builder, const std::string& why) {
  const auto [status, message] = Open(builder.Finish());
  EXPECT_EQ(status, TUNEFARM_BAD_PACKAGE) << why;
  EXPECT_THAT(message, HasSubstr(why));
}

TEST(PackageTest, WhatIsWrittenIsRead) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("sample.tfpack");
  ASSERT_TRUE(WriteFileAtomically(path, Sample().Finish()).ok());
  std::shared_ptr<const Package> package;
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  ASSERT_EQ(Package::Open(path.c_str(), &package, &error), TUNEFARM_OK) << error.message;
  ASSERT_EQ(package->kernels().size(), 1U);
  EXPECT_STREQ(package->String(package->kernels()[0].name), "affine");
  ASSERT_EQ(package->choices().size(), 3U);
  EXPECT_EQ(package->choices()[1].median_ns, 1000.5);
  EXPECT_STREQ(package->Formula(package->choices()[0].first_constraint).text, "n % 64 == 0");
  EXPECT_EQ(package->Bytes(package->binaries()[0]).size(), 64U);
  ReadAll(*package);
}

TEST(PackageTest, WhatIsNoFileIsSaid) {
  std::shared_ptr<const Package> package;
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  EXPECT_EQ(Package::Open("/nowhere/x.tfpack", &package, &error), TUNEFARM_NOT_FOUND);
  EXPECT_STREQ(error.message, "The package /nowhere/x.tfpack cannot be opened: No such file or directory.");
  EXPECT_EQ(Package::Open("/", &package, &error), TUNEFARM_BAD_PACKAGE);
  EXPECT_STREQ(error.message, "/ is not a file.");
  EXPECT_EQ(Package::Open("/nowhere/x.tfpack", &package, nullptr), TUNEFARM_NOT_FOUND);
}

TEST(PackageTest, AFileThatIsCutAnywhereIsRefused) {
  const std::string whole = Sample().Finish();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(Open(whole.substr(0, size)).first, TUNEFARM_BAD_PACKAGE) << size;
  }
  EXPECT_THAT(Open(whole.substr(0, whole.size() - 1)).second, HasSubstr("it is cut off"));
  EXPECT_THAT(Open(whole + "x").second, HasSubstr("bytes that do not belong to it"));
  EXPECT_EQ(Open(whole).first, TUNEFARM_OK);
}

TEST(PackageTest, AFlippedByteIsFound) {
  const std::string whole = Sample().Finish();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_EQ(Open(flipped).first, TUNEFARM_BAD_PACKAGE) << at;
  }
}

// With the checksum made good again: refused, or read without harm.
TEST(PackageTest, WithAGoodChecksumAnyByteMayBeWrong) {
  const std::string whole = Sample().Finish();
  int refused = 0;
  for (size_t at = package::kChecksumFrom; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      package::SetChecksum(&changed);
      if (Open(changed).first != TUNEFARM_OK) ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(PackageTest, AnotherVersionIsNamed) {
  std::string file = Sample().Finish();
  file[offsetof(package::Header, version)] = 2;
  package::SetChecksum(&file);
  const auto [status, message] = Open(file);
  EXPECT_EQ(status, TUNEFARM_BAD_PACKAGE);
  EXPECT_EQ(message,
            "This is a package of version 2, this library reads version 1; export it with a tunefarm of the same "
            "version.");
}

TEST(PackageTest, HostileSectionsAreRefused) {
  const std::string whole = Sample().Finish();
  constexpr size_t kSections =
      (sizeof(package::Header) - offsetof(package::Header, strings)) / sizeof(package::Section);
  for (size_t section = 0; section < kSections; ++section) {
    for (const uint64_t count : {uint64_t{1} << 32, uint64_t{1} << 60, std::numeric_limits<uint64_t>::max(),
                                 std::numeric_limits<uint64_t>::max() / 8 + 1}) {
      std::string file = whole;
      const size_t at = offsetof(package::Header, strings) + section * sizeof(package::Section);
      std::memcpy(file.data() + at + 8, &count, sizeof(count));
      package::SetChecksum(&file);
      EXPECT_EQ(Open(file).first, TUNEFARM_BAD_PACKAGE) << section << " with " << count;
      file = whole;
      std::memcpy(file.data() + at, &count, sizeof(count));
      package::SetChecksum(&file);
      if (section != 10 && section + 1 != kSections) {  // there are no tensor maps, and the last one is reserved
        EXPECT_EQ(Open(file).first, TUNEFARM_BAD_PACKAGE) << section << " at " << count;
      }
    }
  }
}

TEST(PackageTest, RecordsThatContradictEachOtherAreRefused) {
  using Change = std::function<void(PackageBuilder*)>;
  const std::pair<const char*, Change> cases[] = {
      {"texts", [](auto* b) { b->strings[0].bytes = 1 << 30; }},
      {"value", [](auto* b) { b->values[0].kind = 9; }},
      {"formula", [](auto* b) { b->formulas[0].instructions = 9000; }},
      {"formula", [](auto* b) { b->instructions[0].operation = 60; }},
      {"formula", [](auto* b) { b->instructions[0].argument = -1; }},
      {"binary", [](auto* b) { b->binaries[0].bytes = 1 << 20; }},
      {"binary", [](auto* b) { b->data[0] = 'x'; }},
      {"binary", [](auto* b) { b->data[0x3c] = 5; }},  // more sections than there are bytes
      {"kernel", [](auto* b) { b->kernels[0].choices = 4; }},
      {"kernel", [](auto* b) { b->kernels[0].dims = 33; }},
      {"kernel", [](auto* b) { b->kernels[0].lookup_distance_max = std::numeric_limits<double>::quiet_NaN(); }},
      {"kernel", [](auto* b) { b->dims[0].rule = 6; }},
      {"kernel", [](auto* b) { b->dims[0].min = 2 << 20; }},
      {"kernel", [](auto* b) { b->dims[1].kind = package::kInt; }},
      {"kernel",
       [](auto* b) {
         b->dims[0].first_value = b->AddValues(std::vector<Value>(65, Value(1)));
         b->dims[0].values = 65;
       }},
      {"config of affine", [](auto* b) { b->choices[1].device_class = 1; }},
      {"config of affine", [](auto* b) { b->choices[1].first_dim_value = package::kNone; }},
      {"config of affine", [](auto* b) { b->choices[1].binary = 1; }},
      {"config of affine", [](auto* b) { b->choices[1].buffers = 65; }},
      {"config of affine", [](auto* b) { b->choices[1].buffers = 2; }},
      {"config of affine", [](auto* b) { b->choices[1].steps = 49; }},
      {"config of affine", [](auto* b) { b->choices[1].first_constraint = package::kNone; }},
      {"config of affine", [](auto* b) { b->buffers[1].data_type = 13; }},
      {"config of affine", [](auto* b) { b->buffers[0].init = package::kZero; }},
      {"config of affine", [](auto* b) { b->buffers[0].symbol = 0; }},  // of a CPU
      {"config of affine", [](auto* b) { b->buffers[0].access = package::kScratch; }},
      {"config of affine", [](auto* b) { b->steps[0].arguments = 65; }},
      {"config of affine",
       [](auto* b) {
         b->steps[0].kind = package::kMemsetStep;
         b->steps[0].arguments = 65;
       }},
      {"config of affine", [](auto* b) { b->arguments[0].target = 4; }},
      {"config of affine", [](auto* b) { b->arguments[0].kind = package::kTensorMapArgument; }},
      {"config of affine", [](auto* b) { b->arguments[4].target = 1000; }},
  };
  for (const auto& [why, change] : cases) {
    PackageBuilder builder = Sample();
    change(&builder);
    ExpectRefused(builder, why);
  }
}

// Records may be shared, which must not let a small file take long to check.
TEST(PackageTest, WhatASmallFileDescribesIsBounded) {
  PackageBuilder many_steps = Sample();
  package::StepRecord step = many_steps.steps[0];
  step.first_argument = static_cast<uint32_t>(many_steps.arguments.size());
  step.arguments = package::kArgumentsMax;
  many_steps.arguments.resize(many_steps.arguments.size() + package::kArgumentsMax, {package::kBufferArgument, 0, 0});
  many_steps.steps.assign(package::kStepsMax, step);
  package::ChoiceRecord choice = many_steps.choices[0];
  choice.steps = package::kStepsMax;
  // 3,125 of each: 4 buffers, 48 steps of 64 arguments, a constraint.
  const auto with_choices = [&](uint32_t count) {
    many_steps.choices.assign(count, choice);
    many_steps.kernels[0].choices = count;
    return many_steps;
  };
  EXPECT_EQ(Open(with_choices(100).Finish()).first, TUNEFARM_OK);
  ExpectRefused(with_choices(package::kReferencesMax / 3125 + 1), "too many buffers, steps and arguments");
}

TEST(PackageTest, TextsThatTakeLongToCompareAreRefused) {
  PackageBuilder builder = Sample();
  builder.buffers[0].name = builder.String(std::string(package::kStringBytesMax, 'x'));
  // The same text as another record.
  builder.strings.push_back(builder.strings[builder.buffers[0].name]);
  const auto first = static_cast<uint32_t>(builder.buffers.size());
  for (int i = 0; i < 4; ++i) builder.buffers.push_back(package::BufferRecord(builder.buffers[i]));
  builder.buffers[first].name = static_cast<uint32_t>(builder.strings.size()) - 1;
  package::ChoiceRecord alike = builder.choices[0];
  alike.first_buffer = first;
  const auto with_choices = [&](uint32_t count) {
    builder.choices.resize(1);
    builder.choices.resize(count, alike);
    builder.kernels[0].choices = count;
    return builder;
  };
  EXPECT_EQ(Open(with_choices(100).Finish()).first, TUNEFARM_OK);
  ExpectRefused(with_choices(5000), "config of affine");
}

TEST(PackageTest, BinariesThatTakeLongToCheckAreRefused) {
  constexpr uint16_t kSections = 1000;
  constexpr size_t kTable = 64;
  std::string image = package::NoBinary() + std::string(kSections * 64, '\0');
  std::memcpy(image.data() + 0x28, &kTable, sizeof(kTable));  // e_shoff
  const uint16_t entry[] = {64, kSections};                   // e_shentsize, e_shnum
  std::memcpy(image.data() + 0x3a, entry, sizeof(entry));
  PackageBuilder builder = package::SamplePackage(image, "a CPU");
  const package::BinaryRecord binary = builder.binaries[0];
  builder.binaries.assign(10, binary);
  EXPECT_EQ(Open(builder.Finish()).first, TUNEFARM_OK);
  builder.binaries.assign(200, binary);
  ExpectRefused(builder, "binary");
}

// A cubin in the place of a shared object, and a formula of more slots than the kernel has.
TEST(PackageTest, KindsMustGoTogether) {
  PackageBuilder builder = Sample();
  builder.binaries[0].kind = package::kCubin;
  ExpectRefused(builder, "config of affine");
  builder = Sample();
  builder.kernels[0].dims = 0;
  builder.buffers[0].length = builder.Formula("kernel.static_shared_bytes");
  ExpectRefused(builder, "config of affine");
}

}  // namespace
}  // namespace tunefarm::launch
