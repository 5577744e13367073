// What is behind a Client: the connection, the executor on which its state machines run, and the questions.
//
// Threads: the public methods from any thread. Everything marked "executor" is touched by its tasks alone. The executor
// ends first when this goes, so that its tasks may hold plain pointers to the rest.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/cpp/asker.h"
#include "client/cpp/calls.h"
#include "client/cpp/kernel_feed.h"
#include "client/cpp/question_cache.h"
#include "client/cpp/snapshot/snapshot_file.h"
#include "client/cpp/target_resolver.h"
#include "client/cpp/wire.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "server/dial/dial_options.h"
#include "tunefarm/client/client.h"
#include "tunefarm/v1/package_service.grpc.pb.h"
#include "tunefarm/v1/tuning_service.grpc.pb.h"

namespace tunefarm::client {

// How the client's channel behaves.
grpc::ChannelArguments ChannelArgumentsOf(const ClientOptions& options);

class Client::Impl {
 public:
  // With a snapshot there is no daemon, `dial` is empty and `channel` null.
  Impl(ClientOptions options, DialOptions dial, std::shared_ptr<grpc::Channel> channel,
       std::vector<OwnDefault> defaults, std::optional<snapshot::SnapshotFile> snapshot);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const ClientOptions& options() const { return options_; }
  const std::string& address() const { return dial_.address; }
  bool is_offline() const { return snapshot_.has_value(); }

  Result<std::shared_ptr<QuestionImpl>> Prepare(const QuestionSpec& spec) LOCKS_EXCLUDED(questions_mutex_);
  void Close() LOCKS_EXCLUDED(questions_mutex_);

  // Null: there is no daemon, or the client is closed, and `on_end` has been told.
  std::shared_ptr<JobWatchImpl> StartWatch(const std::string& name, EventCallback on_event, EndCallback on_end,
                                           int64_t after_event_id, Duration reconnect_max_wait)
      LOCKS_EXCLUDED(questions_mutex_);

  // package_call.cc; waited for.
  Result<Package> ExportPackage(const v1::ExportPackageRequest& request, Duration timeout);

  // One call that is waited for. While there is no daemon it is repeated for a few seconds if `may_repeat`.
  template <typename Request, typename Response>
  Result<Response> Call(grpc::Status (v1::TuningService::StubInterface::*method)(grpc::ClientContext*, const Request&,
                                                                                 Response*),
                        const Request& request, Duration timeout, bool may_repeat) {
    if (is_offline()) return Status{Code::kUnimplemented, "there is no daemon behind a snapshot file", "OFFLINE"};
    const MonotonicTime begin = Clock::Real()->Now();
    const MonotonicTime end = begin + (timeout > Duration::zero() ? timeout : Duration(options_.timeout));
    Backoff backoff(kRepeatFirst, kRepeatLast);
    while (true) {
      grpc::ClientContext context;
      context.set_deadline(DeadlineAfter(end - Clock::Real()->Now()));
      if (!calls_->Add(&context)) return Status{Code::kCancelled, "the client was closed", "CLOSED"};
      Response response;
      const grpc::Status status = (tuning_.get()->*method)(&context, request, &response);
      calls_->Remove(&context);
      if (status.ok()) return response;
      const MonotonicTime now = Clock::Real()->Now();
      const bool is_over = now >= end || now - begin >= kRepeatFor;
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !may_repeat || is_over) {
        return Explained(status, end - now);
      }
      if (closed_.WaitFor(std::min(backoff.Next(), end - now))) {
        return Status{Code::kCancelled, "the client was closed", "CLOSED"};
      }
    }
  }

 private:
  static constexpr Duration kRepeatFirst = std::chrono::milliseconds(50);
  static constexpr Duration kRepeatLast = std::chrono::seconds(1);
  static constexpr Duration kRepeatFor = std::chrono::seconds(5);

  // Questions about one definition of a kernel on one device.
  struct Group {
    std::vector<std::weak_ptr<QuestionImpl>> questions;
    std::shared_ptr<TargetResolver> resolver;
    std::shared_ptr<KernelFeed> feed;  // null until the name of a kernel that was named by id is known
  };

  void Use(const std::shared_ptr<grpc::Channel>& channel);
  // FromGrpc; where there was no connection, with the cause in words as far as it is found in the time that is left.
  Status Explained(const grpc::Status& status, Duration left) const;
  DaemonPort PortOf(const std::shared_ptr<QuestionImpl>& question);
  // Executor.
  void Attach(const std::shared_ptr<QuestionImpl>& question);
  std::shared_ptr<Group> MakeGroup(const QuestionSpec& spec);
  std::shared_ptr<KernelFeed> FeedOf(const std::string& kernel);
  void OnTarget(Group* group, const Target& target);
  void OnBack(const std::string& kernel);
  void OnChange(const std::string& kernel, const std::set<std::string>& programs, int64_t revision);
  void AskAgainSoon(const std::string& kernel, int64_t revision);
  void Sweep();

  const ClientOptions options_;
  const DialOptions dial_;
  const std::shared_ptr<grpc::Channel> channel_;  // null: offline
  const std::vector<OwnDefault> defaults_;
  const std::optional<snapshot::SnapshotFile> snapshot_;

  std::unique_ptr<v1::KernelService::StubInterface> kernels_;
  std::unique_ptr<v1::DeviceService::StubInterface> devices_;
  std::unique_ptr<v1::LookupService::StubInterface> lookup_;
  std::unique_ptr<v1::CatalogService::StubInterface> catalog_;
  std::unique_ptr<v1::TuningService::StubInterface> tuning_;
  std::unique_ptr<v1::PackageService::StubInterface> packages_;
  std::unique_ptr<OpenCalls> calls_;  // null: offline
  Notification closed_;
  std::atomic<int> requests_{0};  // posted and not yet taken up

  mutable Mutex questions_mutex_;
  bool is_closed_ GUARDED_BY(questions_mutex_) = false;
  uint64_t last_id_ GUARDED_BY(questions_mutex_) = 0;
  std::map<std::string, std::weak_ptr<QuestionImpl>> questions_ GUARDED_BY(questions_mutex_);  // by spec

  // Executor.
  CacheBudget budget_;
  std::unique_ptr<Asker> asker_;
  std::map<std::string, std::shared_ptr<KernelFeed>> feeds_;  // by display name
  // By kernel, program_digest and device, as they are asked for.
  std::map<std::tuple<std::string, std::string, std::string>, std::shared_ptr<Group>> groups_;
  std::map<std::string, int64_t> ask_again_;  // kernels, and before which revision their answers were given
  std::vector<std::weak_ptr<JobWatchImpl>> watches_;

  std::unique_ptr<ThreadExecutor> executor_;
};

}  // namespace tunefarm::client
