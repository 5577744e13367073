#include "server/worker/worker_arguments.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

absl::StatusOr<WorkerArguments> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tunefarm-worker");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return ParseWorkerArguments(static_cast<int>(pointers.size()), pointers.data());
}

TEST(WorkerArguments, ReadsThemAll) {
  const auto parsed =
      Parse({"--role=run", "--backend=cuda", "--channel-fd=3", "--parent-pid=77", "--scratch=/s", "--descriptors=256",
             "--device=GPU-1", "--cuda-path=/c", "--host-compiler=clang++", "--sandbox=off", "--uid=64001",
             "--required-isolation=L1", "--compile-seconds=130", "--fake-x=1"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->role, "run");
  EXPECT_EQ(parsed->backend, "cuda");
  EXPECT_EQ(parsed->channel_fd, 3);
  EXPECT_EQ(parsed->parent_pid, 77);
  EXPECT_EQ(parsed->descriptors, 256);
  EXPECT_EQ(parsed->scratch, "/s");
  EXPECT_EQ(parsed->device_uuid, "GPU-1");
  EXPECT_EQ(parsed->cuda_path, "/c");
  EXPECT_EQ(parsed->host_compiler, "clang++");
  EXPECT_FALSE(parsed->sandbox);
  EXPECT_EQ(parsed->uid, 64001u);
  EXPECT_EQ(parsed->required_isolation, "L1");
  EXPECT_EQ(parsed->compile_seconds, 130);
}

TEST(WorkerArguments, ReadsThoseOfAClock) {
  std::vector<std::string> arguments = {"--role=clocks",  "--backend=cuda",   "--channel-fd=3",
                                        "--device=GPU-1", "--clock-mhz=1410", "--clock-marker=/m"};
  const auto parsed = Parse(arguments);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->role, "clocks");
  EXPECT_EQ(parsed->clock_mhz, 1410);
  EXPECT_EQ(parsed->clock_marker, "/m");
  arguments[4] = "--clock-mhz=10001";
  EXPECT_FALSE(Parse(arguments).ok());
  arguments[4] = "--clock-mhz=0";
  EXPECT_TRUE(Parse(arguments).ok());
  arguments.pop_back();
  EXPECT_FALSE(Parse(arguments).ok());
}

TEST(WorkerArguments, RefusesWhatItDoesNotKnow) {
  EXPECT_FALSE(Parse({}).ok());
  EXPECT_FALSE(Parse({"--role=run", "--backend=cuda"}).ok());
  EXPECT_FALSE(Parse({"--role=dance", "--backend=cuda", "--channel-fd=3"}).ok());
  EXPECT_FALSE(Parse({"--role=run", "--backend=tpu", "--channel-fd=3"}).ok());
  EXPECT_FALSE(Parse({"--role=run", "--backend=cuda", "--channel-fd=1"}).ok());
  EXPECT_FALSE(Parse({"--role=run", "--backend=cuda", "--channel-fd=3x"}).ok());
  EXPECT_FALSE(Parse({"--role=run", "--backend=cuda", "--channel-fd=3", "--descriptors=-1"}).ok());
  EXPECT_FALSE(Parse({"--role=run", "--backend=cuda", "--channel-fd=3", "--sandbox=maybe"}).ok());
  EXPECT_FALSE(Parse({"--role=run", "--backend=cuda", "--channel-fd=3", "--required-isolation=L2"}).ok());
  EXPECT_FALSE(Parse({"--role=run", "--backend=cuda", "--channel-fd=3", "--verbose"}).ok());
}

}  // namespace
}  // namespace tunefarm
