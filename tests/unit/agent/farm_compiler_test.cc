// An agent without devices, with a control daemon, an evaluator and binaries that only play.
#include "server/agent/farm_compiler.h"

#include <optional>
#include <string>

#include "server/agent/farm_binaries.h"
#include "server/exec/binary_directory.h"
#include "tests/fakes/cuda_definition.h"
#include "tests/fakes/fake_evaluator.h"
#include "tests/unit/agent/remote_link_farm.h"

namespace tunefarm {
namespace {

class FarmCompilerTest : public RemoteLinkTest {
 protected:
  FarmCompilerTest()
      : kernel_(CudaDefinition("wide", "parameters { name: 'T' range { first: 1 last: 500 } }", "T", "32")) {
    farm_.kernel = kernel_.SerializeAsString();
  }

  void AddTask(int first, int configs) {
    tunefarm::agent::v1::CompileTask& task = farm_.compiles.emplace_back();
    task.set_kernel_id("wide");
    (*task.mutable_problem()->mutable_dims())["N"].set_int_value(1024);
    *task.mutable_device_class() = FakeGpu("GPU-1").device_class();
    for (int i = 0; i < configs; ++i) task.add_configs("T=" + std::to_string(first + i));
  }

  void RunAll(Duration time) {
    const MonotonicTime end = clock_.Now() + time;
    while (clock_.Now() < end) {
      Run();
      own_.RunUntilIdle();
      compilers_.RunUntilIdle();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  }

  CompileResult Compiled(const std::string& bytes) {
    CompileResult result;
    result.outcome = tunefarm::v1::OUTCOME_OK;
    auto artifact = std::make_shared<Artifact>();
    artifact->bytes = bytes;
    result.artifact = artifact;
    return result;
  }

  // What control tells every agent.
  void Hear() {
    ASSERT_TRUE(link_->Synchronize(Demand(1)).ok());
    Run();
  }

  const tunefarm::v1::Kernel kernel_;
  ManualExecutor own_{&clock_}, compilers_{&clock_};
  FakeEvaluator evaluator_{&compilers_, 4};
};

TEST_F(FarmCompilerTest, CompilesWhatControlHasAndNoMoreThanItCan) {
  Register();
  FarmCompiler compiler({link_.get(), &evaluator_, &own_});
  compiler.Start();
  RunAll(std::chrono::seconds(1));
  EXPECT_TRUE(evaluator_.compiles().empty());
  for (int i = 0; i < 10; ++i) AddTask(1 + 3 * i, 3);
  RunAll(std::chrono::seconds(5));
  EXPECT_EQ(evaluator_.compiles().size(), 30u);
  // Control plays and hands out whole tasks: eight configs are asked for, and eight tasks come.
  EXPECT_LE(evaluator_.most_compiling(), 8 * 3);
  EXPECT_EQ(evaluator_.runs().size(), 0u);
}

TEST_F(FarmCompilerTest, WhatItCannotReadCostsNothingElse) {
  Register();
  AddTask(1, 1);
  AddTask(0, 1);  // not in the space
  farm_.compiles.emplace_back().set_kernel_id("wide");
  FarmCompiler compiler({link_.get(), &evaluator_, &own_});
  compiler.Start();
  RunAll(std::chrono::seconds(3));
  EXPECT_EQ(evaluator_.compiles(), std::vector<std::string>{"T=1"});
}

TEST_F(FarmCompilerTest, ItAsksAgainWhenControlIsBack) {
  Register();
  farm_.away["a:1"] = farm_.away["b:1"] = true;
  FarmCompiler compiler({link_.get(), &evaluator_, &own_});
  compiler.Start();
  RunAll(std::chrono::seconds(3));
  AddTask(1, 2);
  farm_.away.clear();
  RunAll(std::chrono::seconds(10));
  EXPECT_EQ(evaluator_.compiles().size(), 2u);
}

TEST_F(FarmCompilerTest, BinariesComeFromOneAgentToTheOther) {
  Register();
  const Digest key = Sha256("key");
  FarmBinaries gives(link_.get(), &own_, /*offers=*/true), takes(link_.get(), &own_, /*offers=*/false);
  int asked = 0;
  std::optional<CompileResult> found;
  const auto find = [&] {
    found.reset();
    takes.Find(key, [&](std::optional<CompileResult> result) {
      ++asked;
      found = std::move(result);
    });
    own_.RunUntilIdle();
  };
  gives.Keep(key, Compiled("binary"));
  takes.Keep(key, Compiled("nobody is given this"));
  own_.RunUntilIdle();
  ASSERT_EQ(farm_.binaries.size(), 1u);
  // Control has not said that anybody compiles for others.
  find();
  EXPECT_FALSE(found.has_value());
  farm_.has_binaries = true;
  Hear();
  find();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->artifact->bytes, "binary");
  EXPECT_TRUE(found->from_cache);
  // What is no such binary is compiled here.
  farm_.binaries[key.Hex()] = "damaged";
  find();
  EXPECT_FALSE(found.has_value());
  farm_.away["a:1"] = farm_.away["b:1"] = true;
  find();
  EXPECT_FALSE(found.has_value());
  takes.End();
  find();
  EXPECT_FALSE(found.has_value());
  EXPECT_EQ(asked, 5);
}

TEST_F(FarmCompilerTest, NoMoreIsOfferedThanWaits) {
  Register();
  FarmBinaries gives(link_.get(), &own_, /*offers=*/true);
  const std::string large(1 << 20, 'x');
  for (int i = 0; i < 100; ++i) gives.Keep(Sha256(std::to_string(i)), Compiled(large));
  own_.RunUntilIdle();
  EXPECT_EQ(farm_.binaries.size(), 63u);  // 64 MiB, less their descriptions
  gives.Keep(Sha256("later"), Compiled(large));
  own_.RunUntilIdle();
  EXPECT_EQ(farm_.binaries.size(), 64u);
}

}  // namespace
}  // namespace tunefarm
