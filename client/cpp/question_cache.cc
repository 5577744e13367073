#include "client/cpp/question_cache.h"

#include <algorithm>
#include <utility>

namespace tunefarm::client {

int64_t NowNs() { return Clock::Real()->Now().time_since_epoch().count(); }

QuestionImpl::QuestionImpl(uint64_t own_id, QuestionSpec own_spec, const std::vector<OwnDefault>& defaults)
    : id(own_id),
      spec(std::move(own_spec)),
      fixed_(spec.fixed_dims),
      table_(std::make_shared<AnswerTable>(spec.varying_dims.size(), 0)),
      defaults_(std::make_shared<const DefaultAnswers>(defaults, spec, spec.kernel, DeviceNames{spec.device})) {
  Publish();
}

QuestionView QuestionImpl::view(uint64_t* version) const {
  MutexLock lock(&view_mutex_);
  *version = version_.load(std::memory_order_relaxed);
  return view_;
}

void QuestionImpl::Publish() {
  MutexLock lock(&view_mutex_);
  view_ = {table_, defaults_};
  version_.fetch_add(1, std::memory_order_release);
}

CacheState QuestionImpl::state() const {
  CacheState state;
  {
    MutexLock lock(&state_mutex_);
    state = state_;
  }
  const int64_t heard = heard_ns_.load(std::memory_order_relaxed);
  state.since_heard = std::chrono::nanoseconds(heard == 0 ? -1 : std::max<int64_t>(0, NowNs() - heard));
  return state;
}

void QuestionImpl::SetState(CacheState state) {
  MutexLock lock(&state_mutex_);
  state_ = std::move(state);
  state_changed_.NotifyAll();
}

Status QuestionImpl::WaitForRevision(int64_t revision, Duration timeout) const {
  const MonotonicTime end = Clock::Real()->Now() + timeout;
  MutexLock lock(&state_mutex_);
  while (!state_.is_loaded || state_.revision < revision) {
    const Duration left = end - Clock::Real()->Now();
    if (left <= Duration::zero()) {
      const std::string why = state_.last_error.ok() ? "" : ": " + state_.last_error.message;
      return {
          Code::kDeadlineExceeded,
          "the catalog of '" + spec.kernel + "' has not come in time, up to revision " + std::to_string(revision) + why,
          "CACHE_BEHIND"};
    }
    state_changed_.WaitFor(&state_mutex_, left);
  }
  return {};
}

int64_t QuestionImpl::AgeNs(const StoredAnswer& stored) const {
  if (stored.answer.source == Source::kSnapshot || stored.answer.source == Source::kCompiledIn) return 0;
  const int64_t said = std::max(stored.received_ns, heard_ns_.load(std::memory_order_relaxed));
  return said == 0 ? -1 : std::max<int64_t>(0, NowNs() - said);
}

std::optional<TimedAnswer> QuestionImpl::FindCached(const int64_t* key) const {
  uint64_t version = 0;
  const QuestionView own = view(&version);
  const StoredAnswer* const found = own.table->Find(key);
  if (found == nullptr) return std::nullopt;
  // A copy: who keeps the answer must not keep the whole table.
  return TimedAnswer{std::make_shared<const Answer>(found->answer), std::chrono::nanoseconds(AgeNs(*found))};
}

std::optional<TimedAnswer> QuestionImpl::FindDefault(const int64_t* key) const {
  uint64_t version = 0;
  const QuestionView own = view(&version);
  const StoredAnswer* const found = own.defaults->Find(key);
  if (found == nullptr) return std::nullopt;
  return TimedAnswer{std::make_shared<const Answer>(found->answer), std::chrono::nanoseconds(0)};
}

bool QuestionImpl::Request(const QuestionKey& key) const {
  MutexLock lock(&port_mutex_);
  return port_ && port_->request(key);
}

bool QuestionImpl::Ask(const QuestionKey& key, Duration timeout, std::shared_ptr<PendingLookup> waiter) const {
  MutexLock lock(&port_mutex_);
  if (!port_) return false;
  port_->ask(key, timeout, std::move(waiter));
  return true;
}

void QuestionImpl::Connect(DaemonPort port) {
  MutexLock lock(&port_mutex_);
  port_ = std::move(port);
}

void QuestionImpl::Disconnect() {
  MutexLock lock(&port_mutex_);
  port_.reset();
}

std::optional<QuestionKey> QuestionImpl::KeyOf(const MirrorBest& best, const std::vector<std::string>& ignored) const {
  if (!target_ || !best.is_plain || best.program != target_->program_digest ||
      best.class_id != target_->device.class_id || best.dims.size() != fixed_.size() + spec.varying_dims.size()) {
    return std::nullopt;
  }
  QuestionKey key(spec.varying_dims.size());
  for (const auto& [name, value] : best.dims) {
    const auto varying = std::find(spec.varying_dims.begin(), spec.varying_dims.end(), name);
    if (varying != spec.varying_dims.end()) {
      if (value.kind() != Value::Kind::kInt) return std::nullopt;
      key[static_cast<size_t>(varying - spec.varying_dims.begin())] = value.int_value();
      continue;
    }
    if (std::find(ignored.begin(), ignored.end(), name) != ignored.end()) continue;
    const auto fixed = fixed_.find(name);
    if (fixed == fixed_.end() || fixed->second != value) return std::nullopt;
  }
  return key;
}

void QuestionImpl::Put(const QuestionKey& key, std::shared_ptr<const StoredAnswer> answer) {
  if (table_->IsWorn()) {
    table_ = table_->Rebuilt(table_->size() / 2 + 16);
    Publish();
  }
  table_->Put(key.data(), std::move(answer));
}

void QuestionImpl::Remove(const QuestionKey& key) {
  if (!table_->Remove(key.data())) return;
  if (table_->IsWorn()) table_ = table_->Rebuilt(16);
  Publish();  // so that readers ask again for what they once asked for
}

void QuestionImpl::PutExact(const MirrorBest& best) {
  const std::optional<QuestionKey> key = KeyOf(best);
  if (!key) return;
  const auto differs = [](const std::string& asked, const std::string& measured) {
    return !asked.empty() && !measured.empty() && asked != measured;
  };
  std::shared_ptr<const StoredAnswer> stored = best.exact;
  if (differs(target_->device.driver, best.driver) || differs(target_->device.toolkit, best.toolkit)) {
    if (spec.worst_match < Match::kStale) {
      if (remembered_.count(*key) == 0) Remove(*key);
      return;
    }
    auto stale = std::make_shared<StoredAnswer>(*stored);
    stale->answer.match = Match::kStale;
    stored = std::move(stale);
  }
  remembered_.erase(*key);
  Put(*key, std::move(stored));
}

void QuestionImpl::PutOfOtherInputs(const MirrorBest& best, const std::vector<std::string>& inputs) {
  if (spec.worst_match < Match::kNearestShape) return;
  const std::optional<QuestionKey> key = KeyOf(best, inputs);
  if (!key || table_->Find(key->data()) != nullptr) return;
  auto stored = std::make_shared<StoredAnswer>(*best.exact);
  stored->answer.match = Match::kNearestShape;
  Put(*key, std::move(stored));
}

void QuestionImpl::Rebuild(const BestMirror& mirror) {
  auto fresh = std::make_shared<AnswerTable>(dims(), remembered_.size() + 16);
  for (const QuestionKey& key : remembered_) {
    if (const StoredAnswer* const found = table_->Find(key.data())) {
      fresh->Put(key.data(), std::make_shared<const StoredAnswer>(*found));
    }
  }
  table_ = std::move(fresh);
  for (const auto& [name, best] : mirror.bests()) {
    // Tables that readers have not seen yet grow without being published.
    if (table_->IsWorn()) table_ = table_->Rebuilt(table_->size());
    PutExact(*best);
  }
  Publish();
}

void QuestionImpl::SetTarget(const Target& target, const BestMirror& mirror, const std::vector<OwnDefault>& defaults) {
  target_ = target;
  fixed_ = spec.fixed_dims;
  for (const auto& [name, otherwise] : target.dims) {
    const bool is_varying =
        std::find(spec.varying_dims.begin(), spec.varying_dims.end(), name) != spec.varying_dims.end();
    if (!is_varying && otherwise) fixed_.emplace(name, *otherwise);
  }
  defaults_ = std::make_shared<const DefaultAnswers>(
      defaults, spec, target.display_name, DeviceNames{spec.device, target.device.class_id, target.device.class_name});
  Rebuild(mirror);
}

void QuestionImpl::Apply(const MirrorChange& change, const BestMirror& mirror) {
  if (change.reset) {
    Rebuild(mirror);
    return;
  }
  // In one step for a best that is replaced, so that no reader finds nothing in between.
  std::set<QuestionKey> added;
  for (const auto& best : change.added) {
    PutExact(*best);
    if (const auto key = KeyOf(*best)) added.insert(*key);
  }
  for (const auto& best : change.removed) {
    const auto key = KeyOf(*best);
    if (key && added.count(*key) == 0 && remembered_.count(*key) == 0) Remove(*key);
  }
}

bool QuestionImpl::Remember(const QuestionKey& key, StoredAnswer answer) {
  const StoredAnswer* const present = table_->Find(key.data());
  if (present != nullptr && remembered_.count(key) == 0) return false;
  if (answer.answer.match == Match::kNotFound) {
    if (const StoredAnswer* const own = defaults_->Find(key.data())) answer.answer = own->answer;
  }
  remembered_.insert(key);
  Put(key, std::make_shared<const StoredAnswer>(std::move(answer)));
  return true;
}

int64_t QuestionImpl::RevisionOf(const QuestionKey& key) const {
  const StoredAnswer* const found = table_->Find(key.data());
  return found == nullptr ? 0 : found->catalog_revision;
}

void QuestionImpl::Forget(const QuestionKey& key) {
  if (remembered_.erase(key) > 0) Remove(key);
}

ReaderImpl::ReaderImpl(std::shared_ptr<const QuestionImpl> question) : question_(std::move(question)) { Refresh(); }

void ReaderImpl::Refresh() {
  last_ = nullptr;
  view_ = question_->view(&version_);
  requested_.fill(0);
}

const Answer* ReaderImpl::Find(DimValues values) {
  if (values.size != question_->dims()) {
    last_ = nullptr;
    return nullptr;
  }
  if (question_->version() != version_) Refresh();
  last_ = view_.table->Find(values.data);
  if (last_ == nullptr) last_ = FindElsewhere(values.data);
  return last_ == nullptr ? nullptr : &last_->answer;
}

const StoredAnswer* ReaderImpl::FindElsewhere(const int64_t* key) {
  // 0 marks a free place: no key may hash to it.
  const uint64_t hash = AnswerTable::Hash(key, question_->dims()) | 1;
  uint64_t& requested = requested_[(hash >> 32) % requested_.size()];
  if (requested != hash && question_->Request(QuestionKey(key, key + question_->dims()))) requested = hash;
  return view_.defaults->Find(key);
}

std::chrono::nanoseconds ReaderImpl::Age() const {
  return std::chrono::nanoseconds(last_ == nullptr ? -1 : question_->AgeNs(*last_));
}

}  // namespace tunefarm::client
