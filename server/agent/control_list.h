// ControlList: the control daemons that an agent may talk to, and which of them it talks to now. When a call fails as
// calls to a daemon that is away do, the next one is taken; when all have failed one after another, nobody is asked for
// a while, which grows from round to round and is never the same for two agents.
//
// Thread-safe. A call blocks its thread, and only its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/agent/control_channel.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/random.h"

namespace tunefarm {

class ControlList {
 public:
  static constexpr Duration kBackOffFirst = std::chrono::milliseconds(100);
  static constexpr Duration kBackOffMax = std::chrono::seconds(5);

  // At least one address. Clock and entropy outlive the list. Begins with an address chosen at random, so that the
  // agents of a farm spread over its control daemons.
  ControlList(ControlDialer dial, std::vector<std::string> addresses, Clock* clock, EntropySource* entropy);
  ~ControlList();

  // One call to the current control daemon: `call(channel)` answers StatusOr. Unavailable, without a call, while nobody
  // is to be asked.
  template <typename Call>
  auto Do(const Call& call) -> decltype(call(std::declval<ControlChannel&>())) {
    auto turn = Current();
    if (!turn.ok()) return turn.status();
    auto answer = call(*turn->channel);
    Note(*turn, answer.status());
    return answer;
  }

  // The same of a call whose failure says nothing about its daemon, such as one that waits for the store: no other
  // daemon is taken after it.
  template <typename Call>
  auto Ask(const Call& call) -> decltype(call(std::declval<ControlChannel&>())) {
    auto turn = Current();
    if (!turn.ok()) return turn.status();
    return call(*turn->channel);
  }

  size_t size() const { return addresses_.size(); }
  // The next one is taken, as the one in use does not have what is wanted of it.
  void Skip() LOCKS_EXCLUDED(mutex_);
  // How long nobody is to be asked; zero: not at all.
  Duration WaitBeforeNext() const LOCKS_EXCLUDED(mutex_);
  // The address in use, for people.
  std::string address() const LOCKS_EXCLUDED(mutex_);
  // Calls under way and later ones end with Cancelled.
  void Cancel() LOCKS_EXCLUDED(mutex_);

 private:
  struct Turn {
    std::shared_ptr<ControlChannel> channel;
    uint64_t number = 0;
  };

  absl::StatusOr<Turn> Current() LOCKS_EXCLUDED(mutex_);
  void Note(const Turn& turn, const absl::Status& status) LOCKS_EXCLUDED(mutex_);
  void TakeNext() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A random part of `whole`, at least half of it.
  Duration Jittered(Duration whole) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ControlDialer dial_;
  const std::vector<std::string> addresses_;
  Clock* const clock_;
  EntropySource* const entropy_;

  mutable Mutex mutex_;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  size_t at_ GUARDED_BY(mutex_) = 0;
  uint64_t turn_ GUARDED_BY(mutex_) = 1;  // grows with every change
  size_t failed_ GUARDED_BY(mutex_) = 0;  // addresses that failed one after another
  Duration back_off_ GUARDED_BY(mutex_) = kBackOffFirst;
  MonotonicTime not_before_ GUARDED_BY(mutex_){};
  std::shared_ptr<ControlChannel> channel_ GUARDED_BY(mutex_);
};

// Whether a call that ended like this says that its control daemon is away, or of no use, and the next may be better.
bool IsAway(const absl::Status& status);

}  // namespace tunefarm
