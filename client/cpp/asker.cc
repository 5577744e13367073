#include "client/cpp/asker.h"

#include <algorithm>

#include "client/cpp/wire.h"

namespace tunefarm::client {
namespace {

// Background questions open at once: enough to keep a daemon busy, too few to be in anybody's way.
constexpr size_t kOpenMax = 16;

bool IsAway(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

}  // namespace

void PendingLookup::Finish(Result<TimedAnswer> result) {
  Question::Callback callback;
  {
    MutexLock lock(&mutex_);
    callback.swap(callback_);
  }
  if (callback == nullptr) return;
  if (!result.ok()) {
    if (auto own = question_->FindDefault(key_.data())) result = *std::move(own);
  }
  callback(std::move(result));
}

PendingLookup::~PendingLookup() { Finish(Status{Code::kCancelled, "the client was closed", "CLOSED"}); }

bool PendingLookup::Abandon() {
  MutexLock lock(&mutex_);
  if (callback_ == nullptr) return false;
  callback_ = nullptr;
  return true;
}

void Asker::AskInBackground(const std::shared_ptr<QuestionImpl>& question, const QuestionKey& key) {
  if (asks_.size() >= options_.answers_max) PruneFailed();
  if (asks_.size() >= options_.answers_max) return;
  const auto [found, is_new] = asks_.try_emplace({question->id, key});
  if (!is_new) return;
  found->second.question = question;
  queue_.push_back(found->first);
  Pump();
}

void Asker::AskNow(const std::shared_ptr<QuestionImpl>& question, const QuestionKey& key, Duration timeout,
                   std::shared_ptr<PendingLookup> waiter) {
  const Id id{question->id, key};
  Ask& ask = asks_[id];
  ask.question = question;
  ask.waiters.push_back(std::move(waiter));
  if (ask.state != Ask::kSent) Send(id, question, timeout);
}

void Asker::AskAgain(const std::shared_ptr<QuestionImpl>& question, int64_t revision) {
  for (auto at = asks_.lower_bound({question->id, {}}); at != asks_.end() && at->first.first == question->id; ++at) {
    if (at->second.state == Ask::kSent) at->second.again_before = revision;
  }
  for (const QuestionKey& key : question->remembered()) {
    if (question->RevisionOf(key) >= revision) continue;
    const auto [found, is_new] = asks_.try_emplace({question->id, key});
    if (!is_new) continue;
    found->second.question = question;
    queue_.push_back(found->first);
  }
  RetryFailed(*question);
  Pump();
}

void Asker::RetryFailed(const QuestionImpl& question) {
  for (auto at = asks_.lower_bound({question.id, {}}); at != asks_.end() && at->first.first == question.id; ++at) {
    if (at->second.state != Ask::kFailed) continue;
    at->second.state = Ask::kQueued;
    queue_.push_back(at->first);
  }
  Pump();
}

void Asker::Pump() {
  while (sent_ < kOpenMax && !queue_.empty() && !calls_->is_closed()) {
    const Id id = std::move(queue_.front());
    queue_.pop_front();
    const auto found = asks_.find(id);
    if (found == asks_.end() || found->second.state != Ask::kQueued) continue;
    if (const auto question = found->second.question.lock()) {
      Send(id, question, options_.background_timeout);
    } else {
      asks_.erase(found);
    }
  }
}

void Asker::Send(const Id& id, const std::shared_ptr<QuestionImpl>& question, Duration timeout) {
  Ask& ask = asks_[id];
  ask.state = Ask::kSent;
  ask.again_before = 0;
  ++sent_;
  v1::LookupConfigRequest request;
  request.set_kernel(question->spec.kernel);
  request.set_program_digest(question->spec.program_digest);
  request.set_device_selector(question->spec.device);
  request.set_worst_match(static_cast<v1::Match>(question->spec.worst_match));
  auto& dims = *request.mutable_problem()->mutable_dims();
  for (const auto& [name, value] : question->spec.fixed_dims) dims[name] = ToWire(value);
  for (size_t i = 0; i < id.second.size(); ++i) dims[question->spec.varying_dims[i]].set_int_value(id.second[i]);
  StartCall<v1::LookupConfigRequest, v1::LookupConfigResponse>(
      calls_, executor_, timeout, request,
      [this](auto* context, const auto& own, auto* queue) {
        return stub_->PrepareAsyncLookupConfig(context, own, queue);
      },
      [this, id](const grpc::Status& status, const v1::LookupConfigResponse& response) {
        OnAnswer(id, status, response);
      });
}

void Asker::OnAnswer(const Id& id, const grpc::Status& status, const v1::LookupConfigResponse& response) {
  --sent_;
  const auto found = asks_.find(id);
  if (found == asks_.end()) {
    Pump();
    return;
  }
  const auto waiters = std::move(found->second.waiters);
  found->second.waiters.clear();
  const bool again = response.catalog_revision() < found->second.again_before;
  const auto question = found->second.question.lock();
  Result<TimedAnswer> result = FromGrpc(status);
  if (question == nullptr) {
    asks_.erase(found);
  } else if (!status.ok()) {
    // It stays, so that it is not asked at every turn; RetryFailed does. A daemon that does not answer keeps what was
    // known before, one that refuses takes it back.
    found->second.state = Ask::kFailed;
    if (!IsAway(status)) question->Forget(id.second);
  } else {
    asks_.erase(found);
    StoredAnswer stored{FromWire(response), NowNs(), response.catalog_revision()};
    result = TimedAnswer{std::make_shared<const Answer>(stored.answer), std::chrono::nanoseconds(0)};
    if (stored.answer.match == Match::kNotFound) {
      if (auto own = question->FindDefault(id.second.data())) result = *std::move(own);
    }
    Keep(question, id.second, std::move(stored));
    if (again) AskInBackground(question, id.second);
  }
  for (const auto& waiter : waiters) waiter->Finish(result);
  Pump();
}

void Asker::Keep(const std::shared_ptr<QuestionImpl>& question, const QuestionKey& key, StoredAnswer answer) {
  const bool is_new = question->remembered().count(key) == 0;
  if (!question->Remember(key, std::move(answer)) || !is_new) return;
  remembered_.emplace_back(question, key);
  if (remembered_.size() <= options_.answers_max) return;
  const auto [oldest, oldest_key] = std::move(remembered_.front());
  remembered_.pop_front();
  if (const auto owner = oldest.lock()) owner->Forget(oldest_key);
}

void Asker::PruneFailed() {
  for (auto at = asks_.begin(); at != asks_.end();) {
    at = at->second.state == Ask::kFailed ? asks_.erase(at) : std::next(at);
  }
}

void Asker::Close() {
  queue_.clear();
  asks_.clear();  // what waits ends with it
}

}  // namespace tunefarm::client
