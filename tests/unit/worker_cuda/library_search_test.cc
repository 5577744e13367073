#include "server/worker/cuda/library_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>

#include "server/base/file.h"
#include "server/base/status.h"

namespace tunefarm::cuda {
namespace {

// An environment variable for a while.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    const char* const before = getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedVariable() {
    if (had_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* const name_;
  bool had_ = false;
  std::string before_;
};

class LibrarySearch : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        testing::TempDir() + "/tunefarm-search-[x]-XXXXXX";  // what a pattern would read is literal here
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    environment_.root = root_;
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(root_).ok()); }

  void Touch(const std::string& path) {
    ASSERT_TRUE(MakeDirectories(root_ + path.substr(0, path.rfind('/'))).ok());
    std::ofstream(root_ + path) << "x";
  }

  // Where NVRTC is found, without the root; empty if nowhere. The loader's own paths have nothing.
  std::string Find() {
    const auto found = FindLibrary(SearchPlaces(environment_), {"libnvrtc.so.13", "libnvrtc.so.12"},
                                   [](const std::string& path) { return path[0] == '/'; });
    if (!found.ok()) return "";
    why_ = found->place.why;
    return found->path.substr(0, root_.size()) == root_ ? found->path.substr(root_.size()) : found->path;
  }

  std::string root_, why_;
  SearchEnvironment environment_;
};

TEST_F(LibrarySearch, PrefersTheConfigThenTheEnvironmentThenUsualPlaces) {
  EXPECT_EQ(Find(), "");
  Touch("/opt/torch/.venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  EXPECT_EQ(Find(), "/opt/torch/.venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  EXPECT_EQ(why_, "pip");
  Touch("/usr/local/cuda-12.4/lib64/libnvrtc.so.12");
  EXPECT_EQ(Find(), "/usr/local/cuda-12.4/lib64/libnvrtc.so.12");
  Touch("/usr/local/cuda-13.0/lib64/libnvrtc.so.13");
  EXPECT_EQ(Find(), "/usr/local/cuda-13.0/lib64/libnvrtc.so.13");
  Touch("/usr/local/cuda/lib64/libnvrtc.so.12");
  EXPECT_EQ(Find(), "/usr/local/cuda/lib64/libnvrtc.so.12");
  Touch("/home/cuda/lib/libnvrtc.so.12");
  environment_.cuda_home = root_ + "/home/cuda";
  EXPECT_EQ(Find(), "/home/cuda/lib/libnvrtc.so.12");
  EXPECT_EQ(why_, "CUDA_HOME");
  Touch("/chosen/targets/x86_64-linux/lib/libnvrtc.so.13");
  environment_.cuda_path = root_ + "/chosen";
  EXPECT_EQ(Find(), "/chosen/targets/x86_64-linux/lib/libnvrtc.so.13");
  EXPECT_EQ(why_, "cuda.path");
}

TEST_F(LibrarySearch, FindsPipPackagesOfThePythonOnPath) {
  Touch("/venv/bin/python3");
  chmod((root_ + "/venv/bin/python3").c_str(), 0755);
  Touch("/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
  Touch("/venv/lib/python3.12/site-packages/nvidia/cu13/include/cuda_fp16.h");
  environment_.path = "/nonexistent:" + root_ + "/venv/bin";
  EXPECT_THAT(Find(), testing::EndsWith("/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13"));
  const std::vector<SearchPlace> places = SearchPlaces(environment_);
  EXPECT_THAT(FindHeaderDirectory(places, places.back(), "cuda_fp16.h"), testing::EndsWith("/nvidia/cu13/include"));
  EXPECT_EQ(FindHeaderDirectory(places, places.back(), "no_such.h"), "");
}

TEST_F(LibrarySearch, FindsPipPackagesOfTheUserAndOfTheVirtualEnvironment) {
  Touch("/user/.local/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  environment_.home = root_ + "/user";
  EXPECT_EQ(Find(), "/user/.local/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  Touch("/venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  environment_.virtual_env = root_ + "/venv";
  EXPECT_EQ(Find(), "/venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
}

TEST_F(LibrarySearch, TheUsersHomeIsNotTheWorkers) {
  const ScopedVariable home("HOME", "/scratch");
  {
    const ScopedVariable user_home("TUNEFARM_USER_HOME", "/home/user");
    EXPECT_EQ(SearchEnvironment::FromProcess("").home, "/home/user");
  }
  const ScopedVariable no_user_home("TUNEFARM_USER_HOME", "");
  EXPECT_EQ(SearchEnvironment::FromProcess("").home, "/scratch");
}

TEST_F(LibrarySearch, TakesHeadersOfTheSamePlaceFirst) {
  Touch("/a/lib64/libnvrtc.so.13");
  Touch("/a/include/cuda_fp16.h");
  Touch("/usr/local/cuda/lib64/libnvrtc.so.13");
  Touch("/usr/local/cuda/include/cuda_fp16.h");
  environment_.cuda_path = root_ + "/a";
  const std::vector<SearchPlace> places = SearchPlaces(environment_);
  EXPECT_EQ(FindHeaderDirectory(places, places.front(), "cuda_fp16.h"), root_ + "/a/include");
  EXPECT_EQ(FindHeaderDirectory(places, places.back(), "cuda_fp16.h"), root_ + "/usr/local/cuda/include");
}

TEST_F(LibrarySearch, SkipsWhatDoesNotOpenAndSaysWhereItLooked) {
  Touch("/usr/local/cuda/lib64/libnvrtc.so.13");
  const auto found =
      FindLibrary(SearchPlaces(environment_), {"libnvrtc.so.13"}, [](const std::string&) { return false; });
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(found.status())), testing::HasSubstr(root_ + "/usr/local/cuda/lib64"));
  EXPECT_THAT(std::string(MessageOf(found.status())), testing::HasSubstr("the loader's paths"));
}

}  // namespace
}  // namespace tunefarm::cuda
