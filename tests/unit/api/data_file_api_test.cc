// Data files from their upload to the runs that read them, and which of them stay.
#include "server/api/data_file_api.h"

#include <unistd.h>

#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

// Of x for N = 1024.
constexpr size_t kBytes = 4096;

class DataFileApiTest : public testing::Test {
 protected:
  DataFileApiTest() {
    farm_.data_file_options.path = directory_.File("data_files");
    Reboot();
  }

  void Reboot() {
    farm_.Crash();
    farm_.Boot();
  }

  static std::string Content(char of, size_t bytes = kBytes) { return std::string(bytes, of); }

  static v1::Kernel KernelOf(const std::string& content, const std::string& name = "scale") {
    v1::Kernel kernel = TestKernel(false, name);
    v1::DataFile* const file = kernel.mutable_arguments(0)->mutable_buffer()->mutable_fill()->mutable_file();
    file->set_path("x.npy");
    file->set_digest(Sha256(content).Hex());
    file->set_bytes(static_cast<int64_t>(content.size()));
    return kernel;
  }

  absl::Status Upload(const std::string& content, const Principal& principal = ClientSocket()) {
    v1::UploadDataFileRequest request;
    request.set_digest(Sha256(content).Hex());
    request.set_total_bytes(static_cast<int64_t>(content.size()));
    request.set_part(content);
    const auto response = farm_.service().data_file_api().UploadDataFile(principal, request);
    if (response.ok() && !response->is_whole()) return Internal("it is not whole");
    return response.status();
  }

  bool Has(const std::string& content) {
    v1::GetDataFileRequest request;
    request.set_digest(Sha256(content).Hex());
    const auto response = farm_.service().data_file_api().GetDataFile(request);
    return response.ok() && response->is_whole();
  }

  absl::StatusOr<v1::Job> Submit(const v1::Kernel& kernel, int64_t n = 1024, bool validate_only = false) {
    v1::Job job;
    *job.add_problems() = TestProblem(n);
    return farm_.service().Submit(job, kernel, "", validate_only);
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(DataFileApiTest, AJobRunsWithWhatWasUploaded) {
  const std::string content = Content('a');
  v1::Kernel kernel = KernelOf(content);
  EXPECT_TRUE(Submit(kernel, 1024, true).ok()) << "what is only checked needs no bytes";
  const absl::Status missing = Submit(kernel).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(missing), "DATA_FILE_NOT_FOUND");
  EXPECT_THAT(std::string(MessageOf(missing)),
              HasSubstr("arguments[0].buffer.fill.file: the data file 'x.npy' with the digest"));
  EXPECT_THAT(std::string(MessageOf(missing)), HasSubstr("name it by its path alone (file: \"x.npy\")"));
  v1::Kernel nameless = kernel;
  nameless.mutable_arguments(0)->mutable_buffer()->mutable_fill()->mutable_file()->clear_path();
  EXPECT_THAT(std::string(MessageOf(Submit(nameless).status())), HasSubstr("the data file with the digest"));
  EXPECT_EQ(ReasonOf(farm_.service().CreateKernel(kernel).status()), "DATA_FILE_NOT_FOUND");
  ASSERT_TRUE(Upload(content).ok());
  const auto job = Submit(kernel);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(farm_.Finish(job->name()));
  EXPECT_EQ(farm_.Job(job->name()).state(), v1::JOB_STATE_SUCCEEDED);
  ASSERT_FALSE(farm_.evaluator().runs().empty());
  for (const auto& run : farm_.evaluator().runs()) EXPECT_EQ(run.data_files, 1u);
}

TEST_F(DataFileApiTest, WhatDoesNotFitIsRefusedBeforeItIsStored) {
  const std::string content = Content('a');
  ASSERT_TRUE(Upload(content).ok());
  v1::Kernel kernel = KernelOf(content);
  auto* const file = kernel.mutable_arguments(0)->mutable_buffer()->mutable_fill()->mutable_file();
  EXPECT_THAT(std::string(MessageOf(Submit(kernel, 2048).status())),
              HasSubstr("have 4096 bytes, and buffer 'x' has 2048 elements of f32, which are 8192 bytes"));
  file->set_bytes(8192);
  EXPECT_THAT(std::string(MessageOf(Submit(kernel, 2048).status())),
              HasSubstr("the data file 'x.npy' has 4096 bytes, and the definition says 8192"));
  file->clear_digest();
  file->clear_bytes();
  const absl::Status without = Submit(kernel).status();
  EXPECT_EQ(ReasonOf(without), "DATA_FILE_INVALID");
  EXPECT_THAT(std::string(MessageOf(without)), HasSubstr("the file 'x.npy' has no digest"));
  EXPECT_EQ(ReasonOf(farm_.service().CreateKernel(kernel).status()), "DATA_FILE_INVALID");
  v1::GetDataFileRequest question;
  question.set_digest("../x");
  EXPECT_EQ(ReasonOf(farm_.service().data_file_api().GetDataFile(question).status()), "DATA_FILE_INVALID");
}

TEST_F(DataFileApiTest, WhatStoredKernelsNameStays) {
  farm_.data_file_options.bytes_max = 2 * kBytes;
  Reboot();
  const std::string named = Content('a'), other = Content('b'), next = Content('c'), last = Content('d');
  ASSERT_TRUE(Upload(named).ok());
  const auto kernel = farm_.service().CreateKernel(KernelOf(named));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  farm_.clock.Advance(std::chrono::minutes(5));
  ASSERT_TRUE(Upload(other).ok());
  farm_.clock.Advance(std::chrono::minutes(5));
  ASSERT_TRUE(Upload(next).ok());
  EXPECT_TRUE(Has(named));
  EXPECT_FALSE(Has(other));
  // All as before after a restart.
  Reboot();
  EXPECT_TRUE(Has(named));
  farm_.clock.Advance(std::chrono::minutes(5));
  EXPECT_TRUE(Has(next));
  v1::DeleteKernelRequest deletion;
  deletion.set_name(kernel->name());
  ASSERT_TRUE(farm_.service().kernel_api().DeleteKernel(AdminSocket(), deletion).ok());
  farm_.clock.Advance(std::chrono::minutes(5));
  ASSERT_TRUE(Upload(last).ok());
  EXPECT_FALSE(Has(named));
  EXPECT_TRUE(Has(next));
}

TEST_F(DataFileApiTest, CallersHaveTheirShares) {
  farm_.data_file_options.bytes_max = 4 * kBytes;
  farm_.data_file_options.owner_bytes_max = 2 * kBytes;
  Reboot();
  const Principal alice{"alice", PrincipalKind::kToken, *ParseRoles("submit,kernels")};
  const std::string own = Content('o');
  ASSERT_TRUE(Upload(own).ok());
  farm_.clock.Advance(std::chrono::minutes(5));
  for (const char of : {'a', 'b', 'c'}) {
    ASSERT_TRUE(Upload(Content(of), alice).ok());
    farm_.clock.Advance(std::chrono::minutes(5));
  }
  EXPECT_FALSE(Has(Content('a')));
  EXPECT_TRUE(Has(own));
  EXPECT_EQ(ReasonOf(Upload(Content('d', 2 * kBytes + 1), alice)), "DATA_FILE_QUOTA");
}

TEST_F(DataFileApiTest, AJobGoesOnAfterARestart) {
  const std::string content = Content('a');
  ASSERT_TRUE(Upload(content).ok());
  const auto job = Submit(KernelOf(content));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(farm_.RunUntil([&] { return !farm_.evaluator().runs().empty(); }));
  Reboot();
  ASSERT_TRUE(farm_.Finish(job->name()));
  EXPECT_EQ(farm_.Job(job->name()).state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DataFileApiTest, AJobWhoseFileIsGoneFailsWithWhatToDo) {
  const std::string content = Content('a');
  ASSERT_TRUE(Upload(content).ok());
  const auto job = Submit(KernelOf(content));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(unlink(directory_.File("data_files/" + Sha256(content).Hex()).c_str()), 0);
  ASSERT_TRUE(farm_.Finish(job->name()));
  const v1::Job ended = farm_.Job(job->name());
  EXPECT_EQ(ended.state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(ended.error(), HasSubstr("the data file 'x.npy'"));
  EXPECT_THAT(ended.error(), HasSubstr("upload it here"));
  EXPECT_TRUE(farm_.evaluator().runs().empty());
}

TEST_F(DataFileApiTest, AgentsFetchPartByPart) {
  const std::string content = Content('a', (1 << 20) + 5);
  DataFilePart part;
  part.digest = Sha256(content).Hex();
  part.total_bytes = static_cast<int64_t>(content.size());
  part.bytes = std::string_view(content).substr(0, 1 << 20);
  ASSERT_TRUE(farm_.data_files().Write(part).ok());
  agent::v1::FetchDataFileRequest request;
  request.set_digest(part.digest);
  EXPECT_EQ(ReasonOf(farm_.service().link().FetchDataFile(request).status()), "DATA_FILE_NOT_FOUND");
  part.offset = 1 << 20;
  part.bytes = std::string_view(content).substr(1 << 20);
  ASSERT_TRUE(farm_.data_files().Write(part).ok());
  std::string fetched;
  while (true) {
    request.set_offset(static_cast<int64_t>(fetched.size()));
    const auto response = farm_.service().link().FetchDataFile(request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->total_bytes(), part.total_bytes);
    if (response->part().empty()) break;
    fetched += response->part();
  }
  EXPECT_EQ(fetched, content);
  request.set_offset(part.total_bytes + 1);
  EXPECT_EQ(ReasonOf(farm_.service().link().FetchDataFile(request).status()), "DATA_FILE_INVALID");
}

TEST(DataFileApiWithoutStoreTest, ADaemonMayKeepNone) {
  DataFileApi api(nullptr);
  EXPECT_EQ(api.GetDataFile(v1::GetDataFileRequest()).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(api.UploadDataFile(ClientSocket(), v1::UploadDataFileRequest()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  v1::Kernel kernel = TestKernel();
  EXPECT_TRUE(CheckDataFiles(kernel, nullptr).ok());
  kernel.mutable_arguments(0)->mutable_buffer()->mutable_fill()->mutable_file()->set_digest(Sha256("x").Hex());
  EXPECT_EQ(ReasonOf(CheckDataFiles(kernel, nullptr)), "DATA_FILE_NOT_FOUND");
}

}  // namespace
}  // namespace tunefarm
