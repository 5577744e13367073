#include "client/cpp/kernel_feed.h"

#include <utility>

#include "client/cpp/wire.h"

namespace tunefarm::client {

KernelFeed::KernelFeed(std::string kernel, OpenCalls* calls, Executor* executor,
                       v1::CatalogService::StubInterface* stub, CacheBudget* budget, const FeedOptions& options,
                       FeedHooks hooks)
    : kernel_(std::move(kernel)),
      calls_(calls),
      executor_(executor),
      stub_(stub),
      options_(options),
      hooks_(std::move(hooks)),
      backoff_(options.reconnect_min, options.reconnect_max),
      mirror_(budget) {}

void KernelFeed::Add(const std::shared_ptr<QuestionImpl>& question) {
  questions_.push_back(question);
  if (heard_ns_ != 0) question->SetHeard(heard_ns_);
  if (questions_.size() == 1 && stream_ == nullptr) {
    Open();
    WatchForSilence();
  }
  ShowState();
}

std::vector<std::shared_ptr<QuestionImpl>> KernelFeed::questions() {
  std::vector<std::shared_ptr<QuestionImpl>> alive;
  for (auto at = questions_.begin(); at != questions_.end();) {
    if (auto question = at->lock()) {
      alive.push_back(std::move(question));
      ++at;
    } else {
      at = questions_.erase(at);
    }
  }
  return alive;
}

void KernelFeed::Stop() {
  is_stopped_ = true;
  if (stream_ != nullptr) stream_->Cancel();
}

void KernelFeed::Open() {
  if (is_stopped_) return;
  v1::WatchBestConfigsRequest request;
  request.set_kernel(kernel_);
  request.set_after_revision(revision_);
  request.set_catalog_id(catalog_id_);
  auto stream = std::make_shared<ReadStream<Response>>(calls_, executor_);
  const auto self = shared_from_this();
  const bool is_open = stream->Open(
      [this, &request](auto* context, auto* queue) {
        return stub_->PrepareAsyncWatchBestConfigs(context, request, queue);
      },
      [self](const Response& response) { self->OnResponse(response); },
      [self](const grpc::Status& status) { self->OnEnd(status); });
  if (!is_open) return;
  stream_ = std::move(stream);
  is_heard_ = false;
  active_ns_ = NowNs();
  ++connects_;
}

void KernelFeed::OnResponse(const Response& response) {
  if (is_stopped_) return;
  heard_ns_ = active_ns_ = NowNs();
  for (const auto& question : questions()) question->SetHeard(heard_ns_);
  const bool is_back = !is_heard_;
  is_heard_ = true;
  backoff_.Reset();
  SetAway(false);
  if (is_back) hooks_.on_back();
  if (response.reset()) {
    ++resets_;
    staged_programs_.clear();
  }
  for (const v1::BestConfig& best : response.bests()) staged_programs_.insert(best.program_digest());
  mirror_.Stage(response);
  // Nothing but a reset is an empty catalog before its first revision: a part that more follows would say more.
  const bool is_empty_catalog = response.reset() && response.bests().empty() && response.retired().empty();
  if (response.revision() != 0 || is_empty_catalog) Commit(response);
  ShowState();
}

void KernelFeed::Commit(const Response& last) {
  const MirrorChange change = mirror_.Commit();
  // A higher revision alone is that of other kernels' bests.
  const bool has_moved = change.reset || !change.added.empty() || !change.removed.empty();
  const bool is_another = is_loaded_ && catalog_id_ != last.catalog_id();
  revision_ = last.revision();
  catalog_id_ = last.catalog_id();
  is_loaded_ = true;
  for (const auto& question : questions()) question->Apply(change, mirror_);
  const std::set<std::string> programs = std::exchange(staged_programs_, {});
  if (has_moved) hooks_.on_change(programs, is_another ? kEverything : revision_);
}

void KernelFeed::OnEnd(const grpc::Status& status) {
  stream_ = nullptr;
  mirror_.DropStaged();
  staged_programs_.clear();
  last_error_ = status.ok() ? Status{Code::kUnavailable, "the daemon ended the stream", ""} : FromGrpc(status);
  SetAway(true);
  ShowState();
  if (is_stopped_) return;
  executor_->PostAfter(backoff_.Next(), [self = shared_from_this()] {
    if (self->stream_ == nullptr) self->Open();
  });
}

void KernelFeed::WatchForSilence() {
  // Often enough to notice in time, seldom enough to cost nothing.
  executor_->PostAfter(options_.silence_max / 4, [self = shared_from_this()] {
    if (self->is_stopped_) return;
    const bool is_silent = NowNs() - self->active_ns_ > self->options_.silence_max.count();
    if (is_silent && self->stream_ != nullptr) {
      self->SetAway(true);
      self->stream_->Cancel();
    }
    self->WatchForSilence();
  });
}

void KernelFeed::SetAway(bool is_away) {
  for (const auto& question : questions()) question->SetAway(is_away);
}

void KernelFeed::ShowState() {
  CacheState state;
  state.is_live = stream_ != nullptr && is_heard_;
  state.revision = revision_;
  state.bests = mirror_.bests().size();
  state.bytes = mirror_.bytes();
  state.left_out = mirror_.left_out();
  state.connects = connects_;
  state.resets = resets_;
  state.last_error = last_error_;
  for (const auto& question : questions()) {
    state.is_loaded = is_loaded_ && question->target().has_value();
    question->SetState(state);
  }
}

}  // namespace tunefarm::client
