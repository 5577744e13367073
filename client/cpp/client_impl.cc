#include "client/cpp/client_impl.h"

#include <algorithm>
#include <utility>

#include "client/cpp/job_watch.h"
#include "client/cpp/offline.h"
#include "server/dial/dial.h"

namespace tunefarm::client {
namespace {

constexpr int kMessageBytesMax = 16 << 20;
// What ExplainUnreachable may take.
constexpr Duration kExplainFor = std::chrono::seconds(6);
constexpr size_t kDimsMax = 32;
constexpr size_t kDigestBytesMax = 128;  // as the daemon
constexpr Duration kCallTimeout = std::chrono::seconds(10);
// Changes come in bursts; what they make stale is asked again once for each.
constexpr Duration kAskAgainAfter = std::chrono::milliseconds(50);
constexpr Duration kSweepInterval = std::chrono::seconds(5);
// Requests of readers that the executor has not taken up.
constexpr int kRequestsMax = 1024;

Status BadSpec(const std::string& what) { return {Code::kInvalidArgument, what, "QUESTION_INVALID"}; }

Status CheckSpec(const QuestionSpec& spec) {
  if (spec.kernel.empty()) return BadSpec("the question names no kernel");
  if (spec.varying_dims.size() > kVaryingDimsMax || spec.varying_dims.size() + spec.fixed_dims.size() > kDimsMax) {
    return BadSpec("the question has " + std::to_string(spec.varying_dims.size()) + " varying and " +
                   std::to_string(spec.fixed_dims.size()) + " fixed dims; at most " + std::to_string(kVaryingDimsMax) +
                   " may vary, and a problem has at most " + std::to_string(kDimsMax));
  }
  std::set<std::string> names;
  for (const std::string& name : spec.varying_dims) {
    if (name.empty() || !names.insert(name).second || spec.fixed_dims.count(name) > 0) {
      return BadSpec("the question names the dim '" + name + "' twice, or a dim has no name");
    }
  }
  if (spec.worst_match < Match::kExact || spec.worst_match > Match::kDefault) {
    return BadSpec("worst_match must be one of EXACT to DEFAULT");
  }
  if (spec.program_digest.size() > kDigestBytesMax) {
    return BadSpec("the program_digest has " + std::to_string(spec.program_digest.size()) + " bytes, at most " +
                   std::to_string(kDigestBytesMax) + " are taken");
  }
  return {};
}

// Equal for equal specs alone.
std::string SpecText(const QuestionSpec& spec) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += std::to_string(part.size()) + ":" + part; };
  add(spec.kernel);
  add(spec.device);
  add(spec.program_digest);
  text += std::to_string(static_cast<int>(spec.worst_match)) + ";" + std::to_string(spec.varying_dims.size()) + ";";
  for (const std::string& name : spec.varying_dims) add(name);
  for (const auto& [name, value] : spec.fixed_dims) {
    add(name);
    text += std::to_string(static_cast<int>(value.kind()));
    add(value.ToText());
  }
  return text;
}

}  // namespace

Client::Impl::Impl(ClientOptions options, DialOptions dial, std::shared_ptr<grpc::Channel> channel,
                   std::vector<OwnDefault> defaults, std::optional<snapshot::SnapshotFile> snapshot)
    : options_(std::move(options)),
      dial_(std::move(dial)),
      channel_(std::move(channel)),
      defaults_(std::move(defaults)),
      snapshot_(std::move(snapshot)) {
  if (is_offline()) return;
  budget_.bests_max = options_.cached_bests_max;
  budget_.bytes_max = options_.cached_bytes_max;
  Use(channel_);
  calls_ = std::make_unique<OpenCalls>();
  executor_ = std::make_unique<ThreadExecutor>("tunefarm", Clock::Real());
  AskerOptions asker;
  asker.answers_max = options_.cached_answers_max;
  asker.background_timeout = kCallTimeout;
  asker_ = std::make_unique<Asker>(calls_.get(), executor_.get(), lookup_.get(), asker);
  executor_->Post([this] { Sweep(); });
}

Client::Impl::~Impl() { Close(); }

grpc::ChannelArguments ChannelArgumentsOf(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  SetReconnectPauses(options.reconnect_min, options.reconnect_max, &arguments);
  // A connection of its own: by default channels of a process share one, and each other's pauses.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

Status Client::Impl::Explained(const grpc::Status& status, Duration left) const {
  const bool is_late = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  const bool is_away = is_late || status.error_code() == grpc::StatusCode::UNAVAILABLE;
  // The daemon's own errors have details.
  if (!is_away || !status.error_details().empty() || channel_->GetState(false) == GRPC_CHANNEL_READY) {
    return FromGrpc(status);
  }
  if (left >= kExplainFor) return FromAbsl(ExplainUnreachable(dial_));
  Status own = FromGrpc(status);
  own.message = "no connection to the daemon at " + dial_.address + " came about in time (" + own.message + ")";
  return own;
}

void Client::Impl::Use(const std::shared_ptr<grpc::Channel>& channel) {
  kernels_ = v1::KernelService::NewStub(channel);
  devices_ = v1::DeviceService::NewStub(channel);
  lookup_ = v1::LookupService::NewStub(channel);
  catalog_ = v1::CatalogService::NewStub(channel);
  tuning_ = v1::TuningService::NewStub(channel);
  packages_ = v1::PackageService::NewStub(channel);
}

Result<std::shared_ptr<QuestionImpl>> Client::Impl::Prepare(const QuestionSpec& spec) {
  if (Status checked = CheckSpec(spec); !checked.ok()) return checked;
  const std::string text = SpecText(spec);
  std::shared_ptr<QuestionImpl> question;
  {
    MutexLock lock(&questions_mutex_);
    if (is_closed_) return Status{Code::kCancelled, "the client was closed", "CLOSED"};
    if (auto known = questions_[text].lock()) return known;
    if (questions_.size() > options_.questions_max) {
      for (auto at = questions_.begin(); at != questions_.end();) {
        at = at->second.expired() && at->first != text ? questions_.erase(at) : std::next(at);
      }
    }
    if (questions_.size() > options_.questions_max) {
      questions_.erase(text);
      return Status{Code::kResourceExhausted,
                    "there are " + std::to_string(options_.questions_max) +
                        " prepared questions; prepare each one once, or raise questions_max",
                    "QUESTIONS_MAX"};
    }
    question = std::make_shared<QuestionImpl>(++last_id_, spec, defaults_);
    question->lookup_timeout = options_.lookup_timeout;
    if (is_offline()) {
      if (Status filled = FillFromSnapshot(*snapshot_, defaults_, question.get()); !filled.ok()) {
        questions_.erase(text);
        return filled;
      }
    } else {
      question->Connect(PortOf(question));
      executor_->Post([this, question] { Attach(question); });
    }
    questions_[text] = question;
  }
  return question;
}

DaemonPort Client::Impl::PortOf(const std::shared_ptr<QuestionImpl>& question) {
  const std::weak_ptr<QuestionImpl> weak = question;
  DaemonPort port;
  port.request = [this, weak](const QuestionKey& key) {
    if (requests_.fetch_add(1) >= kRequestsMax) {
      requests_.fetch_sub(1);
      return false;
    }
    executor_->Post([this, weak, key] {
      requests_.fetch_sub(1);
      if (const auto own = weak.lock()) asker_->AskInBackground(own, key);
    });
    return true;
  };
  port.ask = [this, weak](const QuestionKey& key, Duration timeout, std::shared_ptr<PendingLookup> waiter) {
    executor_->Post([this, weak, key, timeout, waiter = std::move(waiter)] {
      const auto own = weak.lock();
      if (own == nullptr) return;
      executor_->PostAfter(timeout, [late = std::weak_ptr<PendingLookup>(waiter)] {
        const auto pending = late.lock();
        if (pending == nullptr) return;
        pending->Finish(Status{Code::kDeadlineExceeded, "the daemon has not answered in time", "LOOKUP_TIMEOUT"});
      });
      asker_->AskNow(own, key, timeout, waiter);
    });
  };
  return port;
}

void Client::Impl::Close() {
  std::vector<std::shared_ptr<QuestionImpl>> questions;
  {
    MutexLock lock(&questions_mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    for (const auto& [text, weak] : questions_) {
      if (auto question = weak.lock()) questions.push_back(std::move(question));
    }
  }
  closed_.Notify();
  // From here on nobody posts but calls that are under way, and they end.
  for (const auto& question : questions) question->Disconnect();
  if (is_offline()) return;
  calls_->CloseAndWait();
  Notification done;
  executor_->Post([this, &done] {
    for (const auto& [kernel, feed] : feeds_) feed->Stop();
    for (const auto& weak : watches_) {
      if (const auto watch = weak.lock()) watch->Close();
    }
    asker_->Close();
    done.Notify();
  });
  done.WaitForNotification();
  executor_->Stop();
}

std::shared_ptr<JobWatchImpl> Client::Impl::StartWatch(const std::string& name, EventCallback on_event,
                                                       EndCallback on_end, int64_t after_event_id,
                                                       Duration reconnect_max_wait) {
  Status refused{Code::kCancelled, "the client was closed", "CLOSED"};
  if (is_offline()) refused = {Code::kUnimplemented, "there is no daemon behind a snapshot file", "OFFLINE"};
  {
    MutexLock lock(&questions_mutex_);
    if (!is_closed_ && !is_offline()) {
      auto watch =
          std::make_shared<JobWatchImpl>(name, calls_.get(), executor_.get(), tuning_.get(), std::move(on_event),
                                         std::move(on_end), after_event_id, reconnect_max_wait);
      executor_->Post([this, watch] {
        watches_.erase(
            std::remove_if(watches_.begin(), watches_.end(), [](const auto& weak) { return weak.expired(); }),
            watches_.end());
        watches_.push_back(watch);
        watch->Start();
      });
      return watch;
    }
  }
  if (on_end != nullptr) on_end(refused);
  return nullptr;
}

void Client::Impl::Attach(const std::shared_ptr<QuestionImpl>& question) {
  std::shared_ptr<Group>& group =
      groups_[{question->spec.kernel, question->spec.program_digest, question->spec.device}];
  const bool is_new = group == nullptr;
  if (is_new) group = MakeGroup(question->spec);
  group->questions.push_back(question);
  if (group->feed != nullptr) group->feed->Add(question);
  if (is_new) {
    group->resolver->Refresh();
  } else if (const auto& target = group->resolver->target()) {
    question->SetTarget(*target, group->feed->mirror(), defaults_);
    group->feed->ShowState();
  }
}

std::shared_ptr<Client::Impl::Group> Client::Impl::MakeGroup(const QuestionSpec& spec) {
  auto group = std::make_shared<Group>();
  const std::weak_ptr<Group> weak = group;
  ResolverOptions options;
  options.call_timeout = kCallTimeout;
  options.refresh_interval = options_.refresh_interval;
  options.retry_interval = std::max(options_.reconnect_max, std::chrono::milliseconds(100));
  group->resolver = std::make_shared<TargetResolver>(
      spec.kernel, spec.program_digest, spec.device, calls_.get(), executor_.get(), kernels_.get(), devices_.get(),
      options,
      [this, weak](const Target& target) {
        if (const auto own = weak.lock()) OnTarget(own.get(), target);
      },
      [weak] { return !weak.expired(); });
  if (spec.kernel.rfind("kernels/", 0) != 0) group->feed = FeedOf(spec.kernel);
  return group;
}

std::shared_ptr<KernelFeed> Client::Impl::FeedOf(const std::string& kernel) {
  std::shared_ptr<KernelFeed>& feed = feeds_[kernel];
  if (feed == nullptr) {
    FeedOptions options;
    options.reconnect_min = options_.reconnect_min;
    options.reconnect_max = options_.reconnect_max;
    options.silence_max = options_.silence_max;
    FeedHooks hooks;
    hooks.on_back = [this, kernel] { OnBack(kernel); };
    hooks.on_change = [this, kernel](const std::set<std::string>& programs, int64_t revision) {
      OnChange(kernel, programs, revision);
    };
    feed = std::make_shared<KernelFeed>(kernel, calls_.get(), executor_.get(), catalog_.get(), &budget_, options,
                                        std::move(hooks));
  }
  return feed;
}

void Client::Impl::OnTarget(Group* group, const Target& target) {
  const bool is_first = group->feed == nullptr;
  if (is_first) group->feed = FeedOf(target.display_name);
  for (const auto& weak : group->questions) {
    const auto question = weak.lock();
    if (question == nullptr) continue;
    if (is_first) group->feed->Add(question);
    // Another definition or device than before: the daemon may say something else, too.
    if (question->target()) asker_->AskAgain(question, kEverything);
    question->SetTarget(target, group->feed->mirror(), defaults_);
  }
  group->feed->ShowState();
}

void Client::Impl::OnBack(const std::string& kernel) {
  for (const auto& [name, group] : groups_) {
    if (group->feed == nullptr || group->feed->kernel() != kernel) continue;
    group->resolver->Refresh();
    for (const auto& weak : group->questions) {
      if (const auto question = weak.lock()) asker_->RetryFailed(*question);
    }
  }
}

void Client::Impl::OnChange(const std::string& kernel, const std::set<std::string>& programs, int64_t revision) {
  for (const auto& [name, group] : groups_) {
    if (group->feed == nullptr || group->feed->kernel() != kernel) continue;
    const auto& target = group->resolver->target();
    const bool is_of_another = std::any_of(programs.begin(), programs.end(), [&](const std::string& program) {
      return !target || program != target->program_digest;
    });
    if (is_of_another) group->resolver->Refresh();
  }
  AskAgainSoon(kernel, revision);
}

void Client::Impl::AskAgainSoon(const std::string& kernel, int64_t revision) {
  const auto [soon, is_new] = ask_again_.emplace(kernel, revision);
  soon->second = std::max(soon->second, revision);
  if (!is_new) return;
  executor_->PostAfter(kAskAgainAfter, [this, kernel] {
    const int64_t before = ask_again_.at(kernel);
    ask_again_.erase(kernel);
    const auto feed = feeds_.find(kernel);
    if (feed == feeds_.end()) return;
    for (const auto& question : feed->second->questions()) asker_->AskAgain(question, before);
  });
}

void Client::Impl::Sweep() {
  for (auto at = groups_.begin(); at != groups_.end();) {
    auto& questions = at->second->questions;
    questions.erase(std::remove_if(questions.begin(), questions.end(), [](const auto& weak) { return weak.expired(); }),
                    questions.end());
    at = questions.empty() ? groups_.erase(at) : std::next(at);
  }
  for (auto at = feeds_.begin(); at != feeds_.end();) {
    const bool is_idle = at->second->questions().empty();
    if (is_idle) at->second->Stop();
    at = is_idle ? feeds_.erase(at) : std::next(at);
  }
  executor_->PostAfter(kSweepInterval, [this] { Sweep(); });
}

}  // namespace tunefarm::client
