// What `tunefarm inspect` shows of packages, which may be from anywhere.
#include "client/cli/inspect/package_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cli/app.h"
#include "client/cli/session.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::cli {
namespace {

using package::PackageBuilder;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

PackageBuilder SampleBuilder() { return package::SamplePackage(package::NoBinary(), "a CPU"); }

std::shared_ptr<const launch::Package> PackageOf(const PackageBuilder& builder) {
  const std::string bytes = builder.Finish();
  std::shared_ptr<const launch::Package> package;
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  EXPECT_EQ(launch::Package::Copy(bytes.data(), bytes.size(), &package, &error), TUNEFARM_OK) << error.message;
  return package;
}

// What the command prints for a package.
std::string Inspected(const PackageBuilder& builder, const std::string& format) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("sample.tfpack");
  EXPECT_TRUE(WriteFileAtomically(path, builder.Finish()).ok());
  char* text = nullptr;
  size_t size = 0;
  Session session;
  session.out = open_memstream(&text, &size);
  EXPECT_EQ(RunCommandLine({"inspect", path, "--output", format}, &session), kExitOk);
  std::fclose(session.out);
  std::string printed(text, size);
  std::free(text);
  return printed;
}

TEST(PackageDocumentTest, TextsOfThePackageStayOnTheirLine) {
  PackageBuilder builder = SampleBuilder();
  builder.kernels[0].name = builder.String("affine\nkernel forged\x1b[2J\xff\u202e");
  builder.dims[0].name = builder.String("n\nm");
  const std::string text = Inspected(builder, "table");
  EXPECT_THAT(text, HasSubstr("kernel affine\\nkernel forged\\x1b[2J\\xff"));
  EXPECT_THAT(text, Not(HasSubstr("\nkernel forged")));
  EXPECT_THAT(text, HasSubstr("tuned for n\\nm=1024,dtype=f32 on a CPU"));
}

TEST(PackageDocumentTest, JsonIsValidWhateverTheTextsAre) {
  PackageBuilder builder = SampleBuilder();
  builder.kernels[0].name = builder.String("affine\n\x1b\x7f\xff\u202e\u2028\"");
  const std::string text = Inspected(builder, "json");
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(document.is_discarded()) << text;
  EXPECT_EQ(document["kernels"][0]["name"], "affine\n\x1b\x7f\ufffd\u202e\u2028\"");
}

TEST(PackageDocumentTest, AnExtentThatIsLeftOutBeforeAnotherIsOne) {
  PackageBuilder builder = SampleBuilder();
  builder.steps[0].grid[0] = builder.Formula("n");
  builder.steps[0].grid[2] = builder.Formula("2");
  builder.steps[0].block[0] = builder.Formula("128");
  const auto package = PackageOf(builder);
  ASSERT_NE(package, nullptr);
  const auto document = PackageDocument(*package);
  ASSERT_TRUE(document.ok()) << MessageOf(document.status());
  const Json& launch = (*document)["kernels"][0]["choices"][0]["launches"][0];
  EXPECT_EQ(launch["grid"], Json({"n", "1", "2"}));
  EXPECT_EQ(launch["block"], Json::array({"128"}));
  EXPECT_FALSE(launch.contains("cluster"));
}

// Steps that share a long text: the document would be many times the file.
TEST(PackageDocumentTest, WhatASmallFileDescribesIsBounded) {
  PackageBuilder builder = SampleBuilder();
  package::StepRecord step = builder.steps[0];
  step.entry = builder.String(std::string(package::kStringBytesMax, 'x'));
  builder.steps.assign(package::kStepsMax, step);
  for (package::ChoiceRecord& choice : builder.choices) {
    choice.steps = package::kStepsMax;
    choice.prepares = 0;
  }
  const auto package = PackageOf(builder);
  ASSERT_NE(package, nullptr);
  const absl::Status refused = PackageDocument(*package, size_t{4} << 20).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(MessageOf(refused), "the package cannot be shown: what it describes takes more than 4 MiB of memory");
  EXPECT_TRUE(PackageDocument(*package).ok());
}

}  // namespace
}  // namespace tunefarm::cli
