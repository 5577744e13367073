// Uploads against a service that plays the daemon's (data_file_service.proto), in memory.
#include "client/cli/data/upload.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"
#include "tunefarm/v1/data_file_service.grpc.pb.h"
#include "tunefarm/v1/error.pb.h"

namespace tunefarm::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMib = 1 << 20;

grpc::Status RefusedPart(grpc::StatusCode code, const std::string& message, const std::string& reason) {
  v1::ErrorDetail detail;
  detail.set_reason(reason);
  return {code, message, detail.SerializeAsString()};
}

class FakeDataFiles final : public v1::DataFileService::Service {
 public:
  grpc::Status GetDataFile(grpc::ServerContext*, const v1::GetDataFileRequest* request,
                           v1::GetDataFileResponse* response) override {
    MutexLock lock(&mutex_);
    response->set_is_whole(whole_.count(request->digest()) > 0);
    response->set_received_bytes(static_cast<int64_t>(begun_[request->digest()].size()));
    return grpc::Status::OK;
  }
  grpc::Status UploadDataFile(grpc::ServerContext*, const v1::UploadDataFileRequest* request,
                              v1::UploadDataFileResponse* response) override {
    MutexLock lock(&mutex_);
    offsets_.push_back(request->offset());
    std::string& have = begun_[request->digest()];
    if (before_part_) {
      if (const grpc::Status refused = before_part_(*request, &have); !refused.ok()) return refused;
    }
    const auto offset = static_cast<size_t>(request->offset());
    if (offset <= have.size() && offset + request->part().size() > have.size()) {
      have.replace(offset, std::string::npos, request->part());
    }
    response->set_received_bytes(static_cast<int64_t>(have.size()));
    if (response->received_bytes() < request->total_bytes()) return grpc::Status::OK;
    const std::string content = std::move(have);
    begun_.erase(request->digest());
    if (Sha256(content).Hex() != request->digest()) {
      return RefusedPart(grpc::StatusCode::INVALID_ARGUMENT, "another digest", "DATA_FILE_INVALID");
    }
    whole_[request->digest()] = content;
    response->set_is_whole(true);
    return grpc::Status::OK;
  }

  void Begin(const std::string& digest, const std::string& bytes) {
    MutexLock lock(&mutex_);
    begun_[digest] = bytes;
  }
  void Drop(const std::string& digest) {
    MutexLock lock(&mutex_);
    whole_.erase(digest);
  }
  // Called before each part is taken, with what there is of the file.
  void BeforePart(std::function<grpc::Status(const v1::UploadDataFileRequest&, std::string*)> function) {
    MutexLock lock(&mutex_);
    before_part_ = std::move(function);
  }
  std::vector<int64_t> TakeOffsets() {
    MutexLock lock(&mutex_);
    return std::exchange(offsets_, {});
  }
  std::string Whole(const std::string& digest) {
    MutexLock lock(&mutex_);
    return whole_[digest];
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::string> whole_, begun_;
  std::vector<int64_t> offsets_;
  std::function<grpc::Status(const v1::UploadDataFileRequest&, std::string*)> before_part_;
};

class UploadTest : public testing::Test {
 protected:
  UploadTest() {
    address_ = "unix:" + directory_.File("socket");
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(&files_);
    server_ = builder.BuildAndStart();
    TUNEFARM_CHECK(server_ != nullptr);
  }
  ~UploadTest() override { server_->Shutdown(); }

  // 2.5 MiB that differ from part to part.
  static std::string Content() {
    std::string content;
    for (int i = 0; static_cast<int64_t>(content.size()) < 5 * kMib / 2; ++i) content += std::to_string(i) + " ";
    content.resize(5 * kMib / 2);
    return content;
  }
  std::vector<DescribedFile> Described(const std::string& content) {
    const std::string path = directory_.File("x.bin");
    TUNEFARM_CHECK_OK(WriteFileAtomically(path, content));
    auto fd = OpenForReading(path);
    TUNEFARM_CHECK_OK(fd.status());
    auto file = OpenDataFile::Examine(*std::move(fd), path);
    TUNEFARM_CHECK_OK(file.status());
    std::vector<DescribedFile> files;
    files.push_back({*std::move(file), Sha256(content).Hex()});
    return files;
  }
  std::string Upload(const std::vector<DescribedFile>& files) {
    char* text = nullptr;
    size_t size = 0;
    absl::Status status;
    {
      Session session;
      session.connect.server = address_;
      session.err = open_memstream(&text, &size);
      status = UploadDataFiles(&session, files);
      std::fclose(session.err);
    }
    notes_.assign(text, size);
    std::free(text);
    reason_ = ReasonOf(status);
    return status.ok() ? "OK" : std::string(MessageOf(status));
  }

  TemporaryDirectory directory_;
  std::string address_;
  FakeDataFiles files_;
  std::unique_ptr<grpc::Server> server_;
  std::string notes_, reason_;
};

TEST_F(UploadTest, PartsAreSentOnce) {
  const auto files = Described(Content());
  EXPECT_EQ(Upload(files), "OK");
  EXPECT_THAT(files_.TakeOffsets(), ElementsAre(0, kMib, 2 * kMib));
  EXPECT_EQ(files_.Whole(files[0].digest), Content());
  EXPECT_EQ(notes_, "");
  EXPECT_EQ(Upload(files), "OK");
  EXPECT_THAT(files_.TakeOffsets(), IsEmpty());
}

TEST_F(UploadTest, AnUploadIsContinued) {
  const auto files = Described(Content());
  files_.Begin(files[0].digest, Content().substr(0, 2 * kMib));
  EXPECT_EQ(Upload(files), "OK");
  EXPECT_THAT(files_.TakeOffsets(), ElementsAre(2 * kMib));
  EXPECT_EQ(files_.Whole(files[0].digest), Content());
}

TEST_F(UploadTest, WhatOthersBeganWithOtherBytesIsSentAnew) {
  const auto files = Described(Content());
  files_.Begin(files[0].digest, std::string(2 * kMib, 'z'));
  EXPECT_EQ(Upload(files), "OK");
  EXPECT_THAT(files_.TakeOffsets(), ElementsAre(2 * kMib, 0, kMib, 2 * kMib));
  EXPECT_EQ(files_.Whole(files[0].digest), Content());
}

TEST_F(UploadTest, WhatTheDaemonDroppedIsSentAgain) {
  const auto files = Described(Content());
  bool has_dropped = false;
  files_.BeforePart([&](const v1::UploadDataFileRequest& request, std::string* have) {
    if (request.offset() == 2 * kMib && !has_dropped) {
      has_dropped = true;
      have->clear();
    }
    return grpc::Status::OK;
  });
  EXPECT_EQ(Upload(files), "OK");
  EXPECT_EQ(files_.Whole(files[0].digest), Content());
  files_.BeforePart([](const v1::UploadDataFileRequest&, std::string* have) {
    have->clear();
    return grpc::Status::OK;
  });
  const auto other = Described(Content() + "more");
  EXPECT_THAT(Upload(other), HasSubstr("dropped what was uploaded of it 6 times"));
}

TEST_F(UploadTest, ADaemonThatIsAwayOrLimitsRatesIsWaitedFor) {
  const auto files = Described("small");
  int calls = 0;
  files_.BeforePart([&](const v1::UploadDataFileRequest&, std::string*) {
    ++calls;
    if (calls == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarts");
    if (calls == 2) return RefusedPart(grpc::StatusCode::RESOURCE_EXHAUSTED, "slower", "RATE_LIMIT");
    return grpc::Status::OK;
  });
  EXPECT_EQ(Upload(files), "OK");
  EXPECT_EQ(calls, 3);
}

TEST_F(UploadTest, WithoutSpaceItEnds) {
  files_.BeforePart([](const v1::UploadDataFileRequest&, std::string*) {
    return RefusedPart(grpc::StatusCode::RESOURCE_EXHAUSTED, "there is no room", "DATA_FILE_QUOTA");
  });
  EXPECT_THAT(Upload(Described("small")), HasSubstr("x.bin: there is no room"));
  EXPECT_EQ(reason_, "DATA_FILE_QUOTA");
  EXPECT_THAT(files_.TakeOffsets(), ElementsAre(0));
}

TEST_F(UploadTest, AFileThatWasWrittenIsNoFaultOfTheDaemon) {
  // Of the same size, and as if at the same time: only the digest tells.
  auto files = Described("before");
  files[0].digest = Sha256("after!").Hex();
  EXPECT_THAT(Upload(files), HasSubstr("x.bin changed while it was read"));
}

TEST_F(UploadTest, ACallHasItsFilesAndWhatWasDroppedBeforeItIsUploadedOnceMore) {
  const auto files = Described("small");
  const absl::Status missing = WithReason(FailedPrecondition("it is not on this daemon"), "DATA_FILE_NOT_FOUND");
  Session session;
  session.connect.server = address_;
  int calls = 0;
  const auto answer = CallWithData(&session, files, [&]() -> absl::StatusOr<int> {
    EXPECT_EQ(files_.Whole(files[0].digest), "small");
    if (++calls > 1) return 7;
    files_.Drop(files[0].digest);
    return missing;
  });
  EXPECT_EQ(answer.value_or(-1), 7);
  EXPECT_EQ(calls, 2);
  for (const absl::Status& refused : {missing, FailedPrecondition("something else")}) {
    calls = 0;
    const auto never = CallWithData(&session, files, [&]() -> absl::StatusOr<int> {
      ++calls;
      return refused;
    });
    EXPECT_EQ(never.status(), refused);
    EXPECT_EQ(calls, refused == missing ? 2 : 1);
  }
  const auto without_files = CallWithData(&session, {}, [&]() -> absl::StatusOr<int> { return missing; });
  EXPECT_EQ(without_files.status(), missing);
}

TEST_F(UploadTest, LargeOnesAreTold) {
  const std::string content(9 * kMib, 'x');
  const auto files = Described(content);
  files_.Begin(files[0].digest, content.substr(0, 4 * kMib));
  EXPECT_EQ(Upload(files), "OK");
  EXPECT_THAT(notes_, HasSubstr("x.bin: 9 MiB, from 4 MiB on"));
}

}  // namespace
}  // namespace tunefarm::cli
