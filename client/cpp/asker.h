// Asks the daemon what the cache cannot answer, each thing once at a time, and keeps what it said.
//
// Threads: one (the client's executor), but for PendingLookup.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "client/cpp/calls.h"
#include "client/cpp/question_cache.h"
#include "server/base/mutex.h"
#include "tunefarm/v1/lookup_service.grpc.pb.h"

namespace tunefarm::client {

// A look-up that somebody waits for. Thread-safe.
class PendingLookup {
 public:
  PendingLookup(std::shared_ptr<const QuestionImpl> question, QuestionKey key, Question::Callback callback)
      : question_(std::move(question)), key_(std::move(key)), callback_(std::move(callback)) {}
  // Whatever forgets it has ended it: kCancelled.
  ~PendingLookup();
  PendingLookup(const PendingLookup&) = delete;
  PendingLookup& operator=(const PendingLookup&) = delete;

  // The first call ends it; where `result` is an error and there is a compiled-in default, with that.
  void Finish(Result<TimedAnswer> result) LOCKS_EXCLUDED(mutex_);
  // Nobody waits any more: the callback will not be called. False: it has been, or is being called.
  bool Abandon() LOCKS_EXCLUDED(mutex_);

 private:
  const std::shared_ptr<const QuestionImpl> question_;
  const QuestionKey key_;
  Mutex mutex_;
  Question::Callback callback_ GUARDED_BY(mutex_);  // null: it has ended
};

struct AskerOptions {
  size_t answers_max = 0;
  Duration background_timeout{};
};

class Asker {
 public:
  Asker(OpenCalls* calls, Executor* executor, v1::LookupService::StubInterface* stub, AskerOptions options)
      : calls_(calls), executor_(executor), stub_(stub), options_(options) {}

  // Asks unless it is being asked. Background asks wait for their turn, and give up where there are too many.
  void AskInBackground(const std::shared_ptr<QuestionImpl>& question, const QuestionKey& key);
  void AskNow(const std::shared_ptr<QuestionImpl>& question, const QuestionKey& key, Duration timeout,
              std::shared_ptr<PendingLookup> waiter);
  // What the question remembers of the daemon from before this revision is asked again: the catalog has changed.
  void AskAgain(const std::shared_ptr<QuestionImpl>& question, int64_t revision);
  // What could not be asked is asked again: the daemon is back, or what was asked about may exist now.
  void RetryFailed(const QuestionImpl& question);
  // Ends all that is waited for.
  void Close();

 private:
  using Id = std::pair<uint64_t, QuestionKey>;  // question, key
  struct Ask {
    std::weak_ptr<QuestionImpl> question;
    enum { kQueued, kSent, kFailed } state = kQueued;
    int64_t again_before = 0;  // the catalog has changed meanwhile: an answer from before this revision will not do
    std::vector<std::shared_ptr<PendingLookup>> waiters;
  };

  void Send(const Id& id, const std::shared_ptr<QuestionImpl>& question, Duration timeout);
  void OnAnswer(const Id& id, const grpc::Status& status, const v1::LookupConfigResponse& response);
  void Keep(const std::shared_ptr<QuestionImpl>& question, const QuestionKey& key, StoredAnswer answer);
  void PruneFailed();
  void Pump();

  OpenCalls* const calls_;
  Executor* const executor_;
  v1::LookupService::StubInterface* const stub_;
  const AskerOptions options_;
  std::map<Id, Ask> asks_;  // queued, sent, and failed ones
  std::deque<Id> queue_;    // ids may be gone or sent
  size_t sent_ = 0;
  std::deque<std::pair<std::weak_ptr<QuestionImpl>, QuestionKey>> remembered_;  // oldest first
};

}  // namespace tunefarm::client
