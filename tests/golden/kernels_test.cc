#include <gtest/gtest.h>

#include "server/base/file.h"
#include "tests/golden/command_line.h"
#include "tests/golden/fake_data.h"

namespace tunefarm::golden {
namespace {

TEST(BestTest, EveryMatch) {
  CommandLine cli;
  for (int match = 1; match <= 7; ++match) cli.Record({"best", "scale_host", "--dim", "N=" + std::to_string(match)});
  cli.Comment("The command to copy has all that was asked, as words of a shell.");
  cli.Record({"best", "scale_host", "--dim", "N=6", "--pin", "MODE=1 0", "--device", "Example CPU"});
  cli.Comment("--exact refuses what is only near.");
  cli.Record({"best", "scale_host", "--exact", "--dim", "N=1"});
  EXPECT_EQ(cli.Record({"best", "scale_host", "--exact", "--dim", "N=4"}).code, 3);
  cli.Comment("What a run agreed on.");
  cli.Record({"best", "scale_host", "--run", "job-7", "--dim", "N=1"});
  cli.Record({"best", "scale_host", "--run", "job-7", "--dim", "N=6"});
  EXPECT_EQ(cli.Record({"best", "scale_host", "--run", "job-7", "--dim", "N=7"}).code, 3);
  EXPECT_EQ(cli.Record({"best", "scale_host", "--run", "", "--dim", "N=1"}).code, 2);
  const Result json = cli.Run({"best", "scale_host", "--run", "job-7", "--dim", "N=1", "--output", "json"});
  EXPECT_NE(json.out.find("\"run\": {\n  \"agreed_at_ms\": 1800000000000"), std::string::npos) << json.out;
  EXPECT_NE(json.out.find("\"revision\": 3"), std::string::npos) << json.out;
  cli.ExpectMatches("best");
}

TEST(BestTest, Formats) {
  CommandLine cli;
  // By N the fake daemon chooses how well its answer matches: 1 is EXACT.
  cli.Record({"best", "tuned", "--dim", "N=1", "--format", "defines"});
  cli.Record({"best", "stored", "--output", "csv"});
  cli.Record({"best", "tuned", "--dim", "N=1", "--output", "json"});
  cli.Record({"best", "stored", "--dim", "N=1,2"});
  cli.Comment("Where the definition cannot be read, the answer is all there is.");
  EXPECT_EQ(cli.Run({"best", "stored", "--output", "json"}).code, 0);
  EXPECT_EQ(cli.Record({"best", "stored", "--format", "defines"}).code, 2);
  cli.ExpectMatches("best_formats");
}

TEST(BestTest, Binaries) {
  CommandLine cli;
  const std::string file = cli.directory().File("tuned.so");
  cli.Record({"best", "tuned", "--dim", "N=1", "--so", file});
  EXPECT_EQ(*ReadFile(file, 100), "binary");
  EXPECT_EQ(cli.Run({"best", "tuned", "--dim", "N=1", "--so", "-"}).out, "binary");
  EXPECT_EQ(cli.Record({"best", "tuned", "--dim", "N=1", "--cubin", file}).code, 2);
  EXPECT_EQ(cli.Record({"best", "tuned", "--dim", "N=1", "--so", "-", "--output", "json"}).code, 2);
  EXPECT_EQ(cli.Record({"best", "--so", file}).code, 2);
  const Result json = cli.Run({"best", "tuned", "--dim", "N=1", "--format", "json"});
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_NE(json.out.find("\"compile_options\": [\n  \"-O2\",\n  \"-O3\",\n  \"-DLIMIT=7\"\n ]"), std::string::npos)
      << json.out;
  EXPECT_NE(json.out.find("\"format\": \"BINARY_FORMAT_SHARED_OBJECT\",\n  \"bytes\": 6,"), std::string::npos)
      << json.out;
  cli.ExpectMatches("best_binaries");
}

TEST(KernelsTest, ListShowAndSpace) {
  CommandLine cli;
  cli.Record({"kernels", "list"});
  cli.Record({"kernels", "list", "--output", "csv"});
  cli.Record({"kernels", "show", "scale_host"});
  cli.Record({"kernels", "show", "stored"});
  cli.Record({"kernels", "show", "missing"});
  cli.Comment("Counted here: a known device class needs neither hardware nor a daemon.");
  (*cli.environment())["TUNEFARM_SERVER"] = "unix:/nowhere";
  cli.Record({"kernels", "space", "scale_cuda", "--device", "A100"});
  (*cli.environment())["TUNEFARM_SERVER"] = cli.daemon()->address();
  cli.Record({"kernels", "space", "scale_cuda", "--device", "A100", "--output", "json"});
  cli.Comment("Counted by the daemon, by sampling.");
  cli.Record({"kernels", "space", "stored"});
  cli.ExpectMatches("kernels");
}

TEST(KernelsTest, Delete) {
  CommandLine cli;
  cli.Record({"kernels", "delete", "stored"});
  cli.Record({"kernels", "delete", "stored@0123"});
  cli.Record({"kernels", "delete", StoredKernel().name()});
  cli.Record({"kernels", "delete", "stored", "--output", "json"});
  EXPECT_EQ(cli.Record({"kernels", "delete", "stored@4567"}).code, 3);
  EXPECT_EQ(cli.Record({"kernels", "delete", "scale_host"}).code, 3);
  EXPECT_EQ(cli.Record({"kernels", "delete", "stored@"}).code, 2);
  cli.Record({"__complete", "kernels", "delete", "st"});
  cli.ExpectMatches("kernels_delete");
}

TEST(KernelsTest, CheckSaysWhere) {
  CommandLine cli;
  cli.Record({"kernels", "check", "scale_host"});
  const std::string good = *ReadFile(
      std::string(std::getenv("TUNEFARM_SOURCE_DIR")) + "/tests/golden/kernels/scale_host/kernel.pbtxt", 1 << 20);
  const auto write = [&cli](const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(cli.directory().File("kernel.pbtxt"), text).ok());
    ASSERT_TRUE(WriteFileAtomically(cli.directory().File("scale.cc"), "// empty\n").ok());
  };
  write(good + "constraints { expression: \"CHUNK < LIMIT\" }\n");
  cli.Record({"kernels", "check", cli.directory().path()});
  write(good + "paramters { name: \"X\" }\n");
  cli.Record({"kernels", "check", cli.directory().File("kernel.pbtxt")});
  cli.Record({"kernels", "check", cli.directory().File("missing.pbtxt")});
  cli.Record({"kernels", "check", "no_such_kernel"});
  cli.Comment("One config is tried, in a job that promotes nothing.");
  EXPECT_EQ(cli.Record({"kernels", "check", "scale_host", "--run", "--pin", "CHUNK=256"}).code, 0);
  const v1::CreateJobRequest request = cli.daemon()->last_create_job();
  ASSERT_EQ(request.job().problems_size(), 1);
  EXPECT_EQ(request.job().problems(0).pinned().at("CHUNK").int_value(), 256);
  EXPECT_EQ(request.job().budget().max_trials(), 1);
  EXPECT_EQ(request.job().policy().preset(), v1::MEASUREMENT_PRESET_FAST);
  EXPECT_TRUE(request.job().policy().no_reuse());
  EXPECT_TRUE(request.job().no_promotion());
  EXPECT_EQ(cli.Record({"kernels", "check", "faulty", "--run"}).code, 5);
  EXPECT_EQ(cli.Record({"kernels", "check", "scale_host", "--output", "json"}).code, 0);
  EXPECT_EQ(cli.Record({"kernels", "check", "scale_host", "--output", "csv"}).code, 2);
  cli.ExpectMatches("kernels_check");
}

TEST(KernelsTest, NewWritesADefinitionThatPassesTheCheck) {
  CommandLine cli;
  for (const char* folder : {"cuda", "host"}) {
    ASSERT_TRUE(MakeDirectories(cli.directory().File(folder), 0700).ok());
    const std::string file = cli.directory().File(folder) + (folder[0] == 'c' ? "/my-kernel.cu" : "/my-kernel.cc");
    EXPECT_EQ(cli.Record({"kernels", "new", file}).code, 0);
    EXPECT_EQ(cli.Record({"kernels", "check", cli.directory().File(folder)}).code, 0);
    EXPECT_TRUE(ReadFile(file, 1 << 20).ok());
  }
  cli.Record({"kernels", "space", cli.directory().File("cuda"), "--device", "T4"});
  cli.Comment("What is there is never overwritten.");
  cli.Record({"kernels", "new", cli.directory().File("cuda/my-kernel.cu")});
  cli.Record({"kernels", "new", cli.directory().File("cuda/my_kernel.py")});
  cli.Comment("A definition is guessed from a source that exists, and passes the check.");
  ASSERT_TRUE(MakeDirectories(cli.directory().File("existing"), 0700).ok());
  const std::string source = cli.directory().File("existing/blur.cc");
  ASSERT_TRUE(WriteFileAtomically(source, "extern \"C\" void blur(const float* in, float* out, int n) {}\n").ok());
  EXPECT_EQ(cli.Record({"kernels", "new", source}).code, 0);
  EXPECT_EQ(cli.Record({"kernels", "check", cli.directory().File("existing")}).code, 0);
  cli.Comment("Headers beside it are listed, and a type that is not the kernel's is said.");
  ASSERT_TRUE(MakeDirectories(cli.directory().File("headers"), 0700).ok());
  const std::string scale = cli.directory().File("headers/scale.cu");
  ASSERT_TRUE(WriteFileAtomically(scale,
                                  "#include <cstdint>\n#include \"tile.cuh\"\n#include \"cuda_fp16.h\"\n"
                                  "__global__ void scale(const int32_t* in, float* out, int n) {}\n")
                  .ok());
  ASSERT_TRUE(WriteFileAtomically(cli.directory().File("headers/tile.cuh"), "#pragma once\n").ok());
  EXPECT_EQ(cli.Record({"kernels", "new", scale}).code, 0);
  const std::string written = cli.directory().File("headers/kernel.pbtxt");
  std::string text = *ReadFile(written, 1 << 20);
  EXPECT_NE(text.find("sources { path: \"scale.cu\" }\nsources { path: \"tile.cuh\" }\n"), std::string::npos) << text;
  text.replace(text.find("data_type: I32"), 14, "data_type: I64");
  ASSERT_TRUE(WriteFileAtomically(written, text).ok());
  EXPECT_EQ(cli.Record({"kernels", "check", cli.directory().File("headers")}).code, 0);
  cli.Record({"kernels", "new", cli.directory().File("my-kernel.py")});
  cli.Record({"kernels", "new", cli.directory().File("my_kernel.rs")});
  ASSERT_TRUE(MakeDirectories(cli.directory().File("python"), 0700).ok());
  EXPECT_EQ(cli.Record({"kernels", "new", cli.directory().File("python/my_kernel.py")}).code, 0);
  EXPECT_EQ(cli.Record({"kernels", "check", cli.directory().File("python")}).code, 0);
  cli.Comment("The files as JSON.");
  ASSERT_TRUE(MakeDirectories(cli.directory().File("json"), 0700).ok());
  cli.Record({"kernels", "new", cli.directory().File("json/scale.cc"), "--output", "json"});
  ASSERT_TRUE(MakeDirectories(cli.directory().File("guessed"), 0700).ok());
  const std::string guessed = cli.directory().File("guessed/blur.cc");
  ASSERT_TRUE(WriteFileAtomically(guessed, "extern \"C\" void blur(const float* in, float* out, int n) {}\n").ok());
  cli.Record({"kernels", "new", guessed, "--output", "json"});
  cli.ExpectMatches("kernels_new");
}

constexpr char kTritonSource[] = R"code(import triton
import triton.language as tl


@triton.jit
def activation(x):
    return tl.where(x > 0, x, 0.0)


@triton.autotune(configs=[], key=["M"])
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K,
                  stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,  # in elements
                  BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr = 64, BLOCK_SIZE_K: tl.constexpr = 32,
                  GROUP_SIZE_M: tl.constexpr = 8, EVEN_K: tl.constexpr = False):
    tile = tl.program_id(axis=0)
    a_tiles = a_ptr + tile * stride_am
    b_tiles = b_ptr + tile * stride_bn
    sums = tl.dot(tl.load(a_tiles), tl.load(b_tiles))
    tl.store(c_ptr + tile * stride_cm, activation(sums))
)code";

TEST(KernelsTest, NewReadsAKernelInTriton) {
  CommandLine cli;
  for (const char* folder : {"triton", "other"}) {
    ASSERT_TRUE(MakeDirectories(cli.directory().File(folder), 0700).ok());
  }
  const std::string source = cli.directory().File("triton/matmul.py");
  ASSERT_TRUE(WriteFileAtomically(source, kTritonSource).ok());
  EXPECT_EQ(cli.Record({"kernels", "new", source}).code, 0);
  ExpectEqualsFile("kernels_new_triton.pbtxt", *ReadFile(cli.directory().File("triton/kernel.pbtxt"), 1 << 20));
  cli.Comment("Nothing is written where there is no kernel.");
  const std::string other = cli.directory().File("other/rows.py");
  ASSERT_TRUE(WriteFileAtomically(other, "def rows(x_ptr):\n    pass\n").ok());
  EXPECT_EQ(cli.Record({"kernels", "new", other}).code, 2);
  EXPECT_FALSE(ReadFile(cli.directory().File("other/kernel.pbtxt"), 1 << 20).ok());
  cli.ExpectMatches("kernels_new_triton");
}

}  // namespace
}  // namespace tunefarm::golden
