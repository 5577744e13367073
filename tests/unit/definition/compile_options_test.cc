#include "server/definition/compile_options.h"

#include <gtest/gtest.h>

#include <string>

#include "server/base/status.h"

namespace tunefarm::definition {
namespace {

TEST(CompileOptionsTest, AllowsWhatTunesCode) {
  for (const char* option : {"-use_fast_math", "--use_fast_math", "--fmad=false", "-lineinfo", "--maxrregcount=128",
                             "-DNAME", "-DNAME=4", "-DT=unsigned", "-DF(x)"}) {
    const bool allowed = CheckCompileOption(v1::LANGUAGE_CUDA, option).ok();
    EXPECT_EQ(allowed, std::string(option) != "-DF(x)") << option;
  }
  for (const char* option : {"--std=c++17", "--extra-device-vectorization", "-dopt=on", "--device-int128"}) {
    EXPECT_TRUE(CheckCompileOption(v1::LANGUAGE_CUDA, option).ok()) << option;
  }
  for (const char* option :
       {"-O3", "-Ofast", "-O", "-march=native", "-mtune=skylake-avx512", "-mavx2", "-mavx512f", "-mfma", "-ffast-math",
        "-funroll-loops", "-fno-math-errno", "-std=c++20", "-Wall", "-Wno-unused", "-DNAME=1.5f", "-g"}) {
    EXPECT_TRUE(CheckCompileOption(v1::LANGUAGE_HOST_CXX, option).ok()) << option;
  }
}

// Each of these would read or write a file, run a program, or undo what the worker sets.
TEST(CompileOptionsTest, RefusesWhatReachesOutside) {
  for (const char* option : {"",
                             "-",
                             "-I/etc",
                             "-include",
                             "--pre-include=/etc/passwd",
                             "-include=/etc/passwd",
                             "@options",
                             "-o",
                             "-o/tmp/x",
                             "--gpu-architecture=sm_90",
                             "-arch=sm_90",
                             "-time=/tmp/x",
                             "--time=/tmp/x",
                             "-x",
                             "-dc",
                             "--maxrregcount=",
                             "--maxrregcount=1e9",
                             "--maxrregcount=12345",
                             "--std=c++03",
                             "--fmad=maybe",
                             "-D",
                             "-D=1",
                             "-D1X",
                             "-DX='\"'",
                             "-DX=a b",
                             "-DX=$(id)",
                             "-lineinfo2",
                             "--ptxas-options=-v",
                             "-Xptxas=-v",
                             "-split-compile=8",
                             "file.cu",
                             "-G"}) {
    EXPECT_FALSE(CheckCompileOption(v1::LANGUAGE_CUDA, option).ok()) << option;
  }
  for (const char* option : {"",
                             "-",
                             "-I/etc",
                             "-include",
                             "-include/etc/passwd",
                             "@options",
                             "-o",
                             "-o/tmp/x",
                             "-fplugin=/tmp/x.so",
                             "-fplugin-arg-x-y",
                             "-specs=/tmp/x",
                             "--specs=/tmp/x",
                             "-B/tmp",
                             "-wrapper",
                             "-x",
                             "-xc",
                             "-save-temps",
                             "-L/tmp",
                             "-lfoo",
                             "-Wl,-rpath,/tmp",
                             "-Wp,-MD,/tmp/x",
                             "-Wa,-I/etc",
                             "-fprofile-use=/tmp/x",
                             "-fdump-tree-all=/tmp/x",
                             "-fsanitize=address",
                             "-flto",
                             "-fopenmp",
                             "-march=/tmp/x",
                             "-mavx /tmp/x",
                             "-O4",
                             "-Ox",
                             "-imacros",
                             "-isystem/etc",
                             "-idirafter",
                             "-M",
                             "-MD",
                             "-E",
                             "-S",
                             "-c",
                             "-pipe",
                             "-frandom-seed=/x",
                             "-fdebug-prefix-map=a=b",
                             "-shared",
                             "-dumpdir",
                             "-gsplit-dwarf",
                             "file.cc"}) {
    EXPECT_FALSE(CheckCompileOption(v1::LANGUAGE_HOST_CXX, option).ok()) << option;
  }
}

TEST(CompileOptionsTest, SaysWhatIsAllowed) {
  const absl::Status status = CheckCompileOption(v1::LANGUAGE_CUDA, "--use_fastmath");
  EXPECT_NE(MessageOf(status).find("did you mean '--use_fast_math'"), std::string_view::npos) << MessageOf(status);
  EXPECT_NE(MessageOf(status).find("allowed are -use_fast_math"), std::string_view::npos);
}

}  // namespace
}  // namespace tunefarm::definition
