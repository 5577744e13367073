// KernelFeed: the catalog's stream of one kernel, kept open, and what it tells to the kernel's questions.
//
// A change takes effect as a whole, when its last part has come. A stream that ends or falls silent is opened again
// after a pause, from the last revision that was applied.
//
// Threads: one (the client's executor).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/cpp/backoff.h"
#include "client/cpp/best_mirror.h"
#include "client/cpp/calls.h"
#include "client/cpp/question_cache.h"
#include "tunefarm/v1/catalog_service.grpc.pb.h"

namespace tunefarm::client {

inline constexpr int64_t kEverything = std::numeric_limits<int64_t>::max();

struct FeedOptions {
  Duration reconnect_min{}, reconnect_max{}, silence_max{};
};

// What else follows from what the stream says. On the executor.
struct FeedHooks {
  // The daemon is heard for the first time since the stream was opened.
  std::function<void()> on_back;
  // The catalog has changed; `programs`: of the bests that came. What the daemon said at an earlier revision may not be
  // so any more (kEverything: whatever it said, since another catalog counts).
  std::function<void(const std::set<std::string>& programs, int64_t revision)> on_change;
};

class KernelFeed : public std::enable_shared_from_this<KernelFeed> {
 public:
  KernelFeed(std::string kernel, OpenCalls* calls, Executor* executor, v1::CatalogService::StubInterface* stub,
             CacheBudget* budget, const FeedOptions& options, FeedHooks hooks);

  // The first question opens the stream.
  void Add(const std::shared_ptr<QuestionImpl>& question);
  // Those that are alive; forgets the others.
  std::vector<std::shared_ptr<QuestionImpl>> questions();
  const BestMirror& mirror() const { return mirror_; }
  const std::string& kernel() const { return kernel_; }
  // Tells the questions how things stand.
  void ShowState();
  // Ends the stream; nothing is opened again.
  void Stop();

 private:
  using Response = v1::WatchBestConfigsResponse;

  void Open();
  void OnResponse(const Response& response);
  void OnEnd(const grpc::Status& status);
  void Commit(const Response& last);
  void WatchForSilence();
  void SetAway(bool is_away);

  const std::string kernel_;
  OpenCalls* const calls_;
  Executor* const executor_;
  v1::CatalogService::StubInterface* const stub_;
  const FeedOptions options_;
  const FeedHooks hooks_;
  Backoff backoff_;
  BestMirror mirror_;
  std::vector<std::weak_ptr<QuestionImpl>> questions_;
  std::shared_ptr<ReadStream<Response>> stream_;  // null: none is open
  bool is_stopped_ = false;
  bool is_heard_ = false;  // this stream
  int64_t heard_ns_ = 0;   // any stream
  int64_t active_ns_ = 0;  // when the stream was opened or last heard
  bool is_loaded_ = false;
  int64_t revision_ = 0;
  std::string catalog_id_;
  std::set<std::string> staged_programs_;
  int64_t connects_ = 0, resets_ = 0;
  Status last_error_;
};

}  // namespace tunefarm::client
