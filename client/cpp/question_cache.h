// What is cached for one prepared question: the catalog's bests that answer it exactly, the daemon's other answers, and
// the compiled-in defaults.
//
// Threads: one writes (the client's executor; offline, the thread that prepares the question); every thread may read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/cpp/answer_table.h"
#include "client/cpp/best_mirror.h"
#include "client/cpp/default_answers.h"
#include "client/cpp/target.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "tunefarm/client/question.h"

namespace tunefarm::client {

using QuestionKey = std::vector<int64_t>;  // the values of the varying dims

// Where a question's answers are found. Immutable but for the table's own doings.
struct QuestionView {
  std::shared_ptr<const AnswerTable> table;
  std::shared_ptr<const DefaultAnswers> defaults;
};

// Now, on the monotonic clock.
int64_t NowNs();

class PendingLookup;

// How a question reaches the daemon. Any thread; neither waits.
struct DaemonPort {
  // Asks about a key, some time; false: not now.
  std::function<bool(const QuestionKey& key)> request;
  // Asks now; the look-up ends within the timeout.
  std::function<void(const QuestionKey& key, Duration timeout, std::shared_ptr<PendingLookup> waiter)> ask;
};

class QuestionImpl {
 public:
  // `id` is no other question's. Nothing is cached yet.
  QuestionImpl(uint64_t id, QuestionSpec spec, const std::vector<OwnDefault>& defaults);
  QuestionImpl(const QuestionImpl&) = delete;
  QuestionImpl& operator=(const QuestionImpl&) = delete;

  const uint64_t id;
  const QuestionSpec spec;
  // Of look-ups that name none. Set before anybody else sees the question.
  Duration lookup_timeout = std::chrono::seconds(1);

  // Reading, from any thread.
  size_t dims() const { return spec.varying_dims.size(); }
  // Changes when a reader must take a new view: readers compare it with what they have.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  QuestionView view(uint64_t* version) const LOCKS_EXCLUDED(view_mutex_);
  CacheState state() const LOCKS_EXCLUDED(state_mutex_);
  Status WaitForRevision(int64_t revision, Duration timeout) const LOCKS_EXCLUDED(state_mutex_);
  // How long ago the daemon was known to say so; negative: never.
  int64_t AgeNs(const StoredAnswer& stored) const;
  // The stream has broken or is silent: a call had better not wait for the daemon.
  bool is_away() const { return is_away_.load(std::memory_order_relaxed); }
  // A copy of what answers; none: nothing.
  std::optional<TimedAnswer> FindCached(const int64_t* key) const;
  std::optional<TimedAnswer> FindDefault(const int64_t* key) const;

  // The way to the daemon: none offline, and none once the client is closed.
  bool Request(const QuestionKey& key) const LOCKS_EXCLUDED(port_mutex_);
  // False: there is no way.
  bool Ask(const QuestionKey& key, Duration timeout, std::shared_ptr<PendingLookup> waiter) const
      LOCKS_EXCLUDED(port_mutex_);
  void Connect(DaemonPort port) LOCKS_EXCLUDED(port_mutex_);
  void Disconnect() LOCKS_EXCLUDED(port_mutex_);
  bool is_offline() const { return is_offline_.load(std::memory_order_relaxed); }
  void SetOffline() { is_offline_.store(true, std::memory_order_relaxed); }

  // Writing, by the one thread.
  // What the question is about; its exact answers are read from the mirror again. `defaults` as given before.
  void SetTarget(const Target& target, const BestMirror& mirror, const std::vector<OwnDefault>& defaults);
  void Apply(const MirrorChange& change, const BestMirror& mirror);
  // An answer of the daemon's. False: it was asked for for nothing, the catalog's own has come meanwhile.
  bool Remember(const QuestionKey& key, StoredAnswer answer);
  // Forgets an answer that was remembered.
  void Forget(const QuestionKey& key);
  const std::set<QuestionKey>& remembered() const { return remembered_; }
  // Of the catalog when the daemon gave the answer that is remembered.
  int64_t RevisionOf(const QuestionKey& key) const;
  const std::optional<Target>& target() const { return target_; }
  // Of snapshots, too.
  void PutExact(const MirrorBest& best);
  // Of snapshots: a best for a problem that may differ in the dims `inputs`, which only describe inputs. Answers as
  // kNearestShape at distance 0 where nothing answers yet.
  void PutOfOtherInputs(const MirrorBest& best, const std::vector<std::string>& inputs);
  void SetState(CacheState state) LOCKS_EXCLUDED(state_mutex_);
  void SetHeard(int64_t now_ns) { heard_ns_.store(now_ns, std::memory_order_relaxed); }
  void SetAway(bool is_away) { is_away_.store(is_away, std::memory_order_relaxed); }

 private:
  // The values of the varying dims if the best answers a problem of this question on the target, whatever its values of
  // the dims `ignored` are; else none.
  std::optional<QuestionKey> KeyOf(const MirrorBest& best, const std::vector<std::string>& ignored = {}) const;
  void Rebuild(const BestMirror& mirror);
  void Put(const QuestionKey& key, std::shared_ptr<const StoredAnswer> answer);
  void Remove(const QuestionKey& key);
  void Publish() LOCKS_EXCLUDED(view_mutex_);

  // The writer's.
  std::optional<Target> target_;
  ValueMap fixed_;  // spec.fixed_dims with the definition's defaults for what is named nowhere
  std::set<QuestionKey> remembered_;
  std::shared_ptr<AnswerTable> table_;
  std::shared_ptr<const DefaultAnswers> defaults_;

  std::atomic<uint64_t> version_{0};
  std::atomic<int64_t> heard_ns_{0};
  std::atomic<bool> is_away_{false};
  mutable Mutex view_mutex_;
  QuestionView view_ GUARDED_BY(view_mutex_);
  mutable Mutex state_mutex_;
  mutable CondVar state_changed_;
  CacheState state_ GUARDED_BY(state_mutex_);
  std::atomic<bool> is_offline_{false};
  mutable Mutex port_mutex_;
  std::optional<DaemonPort> port_ GUARDED_BY(port_mutex_);
};

class ReaderImpl {
 public:
  explicit ReaderImpl(std::shared_ptr<const QuestionImpl> question);

  const Answer* Find(DimValues values);
  std::chrono::nanoseconds Age() const;

 private:
  const StoredAnswer* FindElsewhere(const int64_t* key);
  void Refresh();

  const std::shared_ptr<const QuestionImpl> question_;
  uint64_t version_ = 0;
  QuestionView view_;
  const StoredAnswer* last_ = nullptr;
  // Hashes of keys that were requested since the view is this one: asked once is enough.
  std::array<uint64_t, 256> requested_{};
};

}  // namespace tunefarm::client
