#include "server/worker/sandbox/sandbox_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

class SandboxViewTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text = "") {
    ASSERT_TRUE(MakeDirectories(directory_.File(path.substr(0, path.rfind('/')))).ok());
    ASSERT_TRUE(WriteFileAtomically(directory_.File(path), text, 0755).ok());
  }
  // As the driver describes a GPU.
  void PutGpu(const std::string& bus, const std::string& uuid, int minor) {
    Put("proc/driver/nvidia/gpus/" + bus + "/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 0\nGPU UUID: \t " +
                                                               uuid + "\nVideo BIOS: \t ??\nDevice Minor: \t " +
                                                               std::to_string(minor) + "\nGPU Excluded:\t No\n");
    Put("dev/nvidia" + std::to_string(minor));
  }
  ViewSources Sources() const {
    ViewSources sources;
    sources.root = directory_.path();
    return sources;
  }
  static WorkerArguments Arguments(const std::string& role, const std::string& backend) {
    WorkerArguments arguments;
    arguments.role = role;
    arguments.backend = backend;
    arguments.scratch = "/somewhere/data/scratch/worker";
    return arguments;
  }

  TemporaryDirectory directory_;
};

TEST_F(SandboxViewTest, ARunnerGetsItsOwnGpuAlone) {
  PutGpu("0000:18:00.0", "GPU-aaaa", 1);
  PutGpu("0000:2a:00.0", "GPU-bbbb", 0);
  PutGpu("0000:3a:00.0", "GPU-cccc", 12);
  Put("dev/nvidiactl");
  Put("dev/nvidia-uvm");
  WorkerArguments arguments = Arguments("run", "cuda");
  arguments.device_uuid = "GPU-cccc";
  const SandboxView view = ViewOf(arguments, Sources());
  EXPECT_THAT(view.root.devices,
              ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/dxg", "/dev/nvidia12"));
  EXPECT_EQ(view.lacks, "");
}

TEST_F(SandboxViewTest, AProbeSeesEveryGpu) {
  PutGpu("0000:18:00.0", "GPU-aaaa", 0);
  PutGpu("0000:2a:00.0", "GPU-bbbb", 1);
  const SandboxView view = ViewOf(Arguments("probe", "cuda"), Sources());
  EXPECT_THAT(view.root.devices, IsSupersetOf({"/dev/nvidia0", "/dev/nvidia1"}));
  EXPECT_EQ(view.lacks, "");
}

TEST_F(SandboxViewTest, WhatCannotBeToldApartIsSaid) {
  Put("dev/nvidia0");
  Put("dev/nvidia1");
  WorkerArguments arguments = Arguments("run", "cuda");
  arguments.device_uuid = "GPU-aaaa";
  const SandboxView view = ViewOf(arguments, Sources());
  EXPECT_THAT(view.root.devices, IsSupersetOf({"/dev/nvidia0", "/dev/nvidia1"}));
  EXPECT_THAT(view.lacks, HasSubstr("which of 2 belongs to GPU-aaaa"));
}

// As in a container that was given one of several.
TEST_F(SandboxViewTest, TheOnlyGpuNeedsNoList) {
  Put("dev/nvidia3");
  WorkerArguments arguments = Arguments("run", "cuda");
  arguments.device_uuid = "GPU-aaaa";
  const SandboxView view = ViewOf(arguments, Sources());
  EXPECT_THAT(view.root.devices, Contains("/dev/nvidia3"));
  EXPECT_EQ(view.lacks, "");
}

TEST_F(SandboxViewTest, CompilersSeeNoGpu) {
  PutGpu("0000:18:00.0", "GPU-aaaa", 0);
  for (const char* backend : {"cuda", "host"}) {
    EXPECT_THAT(ViewOf(Arguments("compile", backend), Sources()).root.devices, IsEmpty());
  }
}

TEST_F(SandboxViewTest, OfAToolkitOnlyLibrariesAndHeadersShow) {
  Put("toolkit/lib64/libnvrtc.so.13");
  Put("toolkit/include/cuda_fp16.h");
  Put("toolkit/bin/nvcc");
  Put("blas/lib/libcublas.so.13");
  Put("other/lib/libother.so");
  Put("other/include/other.h");
  ViewSources sources = Sources();
  for (const char* library : {"toolkit/lib64", "blas/lib", "other/lib"}) {
    sources.library_directories.push_back(directory_.File(library));
  }
  sources.include_directories = {directory_.File("other/include")};
  const RootView compile = ViewOf(Arguments("compile", "cuda"), sources).root;
  EXPECT_THAT(compile.shown,
              IsSupersetOf({directory_.File("toolkit/lib64"), directory_.File("toolkit/lib64") + "/../include"}));
  for (const char* hidden : {"blas/lib", "other/lib", "other/include", "toolkit", "toolkit/bin"}) {
    EXPECT_THAT(compile.shown, Not(Contains(directory_.File(hidden))));
  }
  EXPECT_THAT(compile.shown, Not(Contains("/usr")));
  EXPECT_THAT(ViewOf(Arguments("run", "cuda"), sources).root.shown, Contains(directory_.File("blas/lib")));
}

TEST_F(SandboxViewTest, AnInterpreterComesWithItsPackagesAndMayLoadWhatItBuilds) {
  Put("python/bin/python3.11");
  Put("home/me/venv/bin/placeholder");
  const std::string given = directory_.File("home/me/venv/bin/python3");
  ASSERT_EQ(symlink(directory_.File("python/bin/python3.11").c_str(), given.c_str()), 0);
  char real[4096];
  ASSERT_NE(realpath(directory_.path().c_str(), real), nullptr);
  setenv("TUNEFARM_USER_HOME", directory_.File("home/me").c_str(), 1);
  WorkerArguments arguments = Arguments("run", "python-host");
  arguments.python = given;
  const RootView view = ViewOf(arguments, Sources()).root;
  EXPECT_THAT(view.shown, IsSupersetOf({given, directory_.File("home/me/venv"), real + std::string("/python"),
                                        std::string("/usr")}));
  EXPECT_TRUE(view.scratch_executable);
  EXPECT_THAT(view.devices, IsEmpty());
  EXPECT_THAT(view.hidden, ElementsAre("/somewhere/data"));
  EXPECT_FALSE(ViewOf(Arguments("run", "host"), Sources()).root.scratch_executable);
  // One that lies in the home itself does not show the home.
  Put("home/me/bin/python3");
  arguments.python = directory_.File("home/me/bin/python3");
  EXPECT_THAT(ViewOf(arguments, Sources()).root.shown, Not(Contains(directory_.File("home/me"))));
  unsetenv("TUNEFARM_USER_HOME");
}

TEST_F(SandboxViewTest, AnInterpreterThatRunsSeesItsGpuAlone) {
  PutGpu("0000:18:00.0", "GPU-aaaa", 0);
  PutGpu("0000:2a:00.0", "GPU-bbbb", 1);
  WorkerArguments arguments = Arguments("run", "python-cuda");
  arguments.python = "/usr/bin/python3";
  arguments.device_uuid = "GPU-bbbb";
  const std::vector<std::string> devices = ViewOf(arguments, Sources()).root.devices;
  EXPECT_THAT(devices, Contains("/dev/nvidia1"));
  EXPECT_THAT(devices, Not(Contains("/dev/nvidia0")));
  arguments.role = "compile";
  EXPECT_THAT(ViewOf(arguments, Sources()).root.devices, IsEmpty());
}

TEST_F(SandboxViewTest, ACompilerComesWithItsPrefix) {
  Put("gcc/bin/c++");
  Put("home/me/bin/c++");
  Put("links/placeholder");
  ASSERT_EQ(symlink(directory_.File("gcc/bin/c++").c_str(), directory_.File("links/c++").c_str()), 0);
  char real[4096];
  ASSERT_NE(realpath(directory_.path().c_str(), real), nullptr);
  const std::string root = real;
  ViewSources sources = Sources();
  sources.path = directory_.File("nothing") + ":" + directory_.File("links");
  EXPECT_THAT(ViewOf(Arguments("compile", "host"), sources).root.shown,
              IsSupersetOf({root + "/gcc", directory_.File("links/c++"), std::string("/usr")}));
  // Trials run without a compiler.
  EXPECT_THAT(ViewOf(Arguments("run", "host"), sources).root.shown, Not(Contains(root + "/gcc")));
  // Not the whole home, nor the daemon's directory.
  setenv("TUNEFARM_USER_HOME", (root + "/home/me").c_str(), 1);
  WorkerArguments arguments = Arguments("compile", "host");
  arguments.host_compiler = root + "/home/me/bin/c++";
  const RootView at_home = ViewOf(arguments, sources).root;
  unsetenv("TUNEFARM_USER_HOME");
  EXPECT_THAT(at_home.shown, Contains(root + "/home/me/bin"));
  EXPECT_THAT(at_home.shown, Not(Contains(root + "/home/me")));
}

TEST_F(SandboxViewTest, TheDaemonsDirectoryStaysHidden) {
  EXPECT_THAT(ViewOf(Arguments("run", "host"), Sources()).root.hidden, ElementsAre("/somewhere/data"));
}

TEST_F(SandboxViewTest, LoaderDirectoriesComeFromTheCache) {
  using std::string_literals::operator""s;
  const std::string text =
      "ld.so-1.7.0\0\0\3glibc-ld.so.cache1.1\0libx.so.1\0/opt/x/lib/libx.so.1\0liby.so\0"
      "/usr/lib/liby.so\0libz.so\0/opt/x/lib/libz.so\0/opt/no/library\0/lib.so\0"s;
  ASSERT_TRUE(WriteFileAtomically(directory_.File("cache"), text).ok());
  EXPECT_THAT(LoaderDirectories(directory_.File("cache")), ElementsAre("/opt/x/lib", "/usr/lib"));
  EXPECT_THAT(LoaderDirectories(directory_.File("missing")), IsEmpty());
}

}  // namespace
}  // namespace tunefarm
