#include "server/exec/clocks/clock_guard.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/captured_output.h"
#include "server/exec/worker_command.h"

namespace tunefarm {
namespace {

// How long a refusal stands: for all runs that wait now, and not for the next try of one of them, since what NVML has
// refused once it may permit a moment later.
constexpr std::chrono::milliseconds kRefusalStands{200};
// Processes in a row that may end before they hold the clock, of what is not NVML's refusal, before that is refused.
constexpr int kFailedStartsMax = 3;
// How long a clock waits for the run that asked for it.
constexpr std::chrono::seconds kReservationStands{1};
// Before a lost process is replaced for the second time; doubles each time.
constexpr std::chrono::milliseconds kFirstRest{100};
constexpr int kRestDoublingsMax = 6;

}  // namespace

ClockGuard::ClockGuard(EventLoop* loop, Options options) : loop_(loop), options_(std::move(options)) {
  TUNEFARM_CHECK(loop_->IsCurrent());
  if (access(options_.marker.c_str(), F_OK) != 0) return;
  LogWarn("exec", "the clock of {} may have been left held by an earlier daemon; it is freed", options_.device_uuid);
  may_be_held_ = true;
  Start(0);
}

ClockGuard::~ClockGuard() {
  *alive_ = false;
  for (const TimerId timer : {answer_timer_, idle_timer_, reservation_timer_, start_timer_}) loop_->Cancel(timer);
  if (process_ != nullptr) process_->LetGo();
  DropProcess();
}

TimerId ClockGuard::After(Duration delay, void (ClockGuard::*call)()) {
  return loop_->PostAfter(delay, [this, alive = alive_, call] {
    if (*alive) (this->*call)();
  });
}

void ClockGuard::PostChanged() {
  loop_->Post([this, alive = alive_] {
    if (*alive && options_.changed) options_.changed();
  });
}

ClockGuard::Answer ClockGuard::Ask(int mhz, std::string* refusal) {
  if (shut_down_) {
    *refusal = "the daemon is ending";
    return Answer::kRefused;
  }
  if (const auto refused = refusals_.find(mhz); refused != refusals_.end()) {
    if (loop_->clock()->Now() < refused->second.until) {
      *refusal = refused->second.why;
      return Answer::kRefused;
    }
    refusals_.erase(refused);
  }
  const bool is_wanted = state_ == State::kHeld ? mhz_ == mhz : state_ == State::kFree && mhz == 0 && !may_be_held_;
  if (is_wanted) {
    if (reserved_mhz_ == mhz) EndReservation();
    if (reserved_mhz_.has_value()) return Answer::kWait;
    loop_->Cancel(idle_timer_);
    return Answer::kReady;
  }
  const bool is_changing = state_ == State::kStarting || state_ == State::kEnding;
  if (is_changing || reserved_mhz_.value_or(mhz) != mhz || options_.in_use()) return Answer::kWait;
  // The next one that is ready is this one, not another that would change the clock back.
  reserved_mhz_ = mhz;
  if (state_ == State::kHeld) {
    Close();
  } else {
    Start(mhz);
  }
  return Answer::kWait;
}

void ClockGuard::Reserve(int mhz) {
  reserved_mhz_ = mhz;
  loop_->Cancel(reservation_timer_);
  reservation_timer_ = After(kReservationStands, &ClockGuard::EndReservation);
}

void ClockGuard::EndReservation() {
  reserved_mhz_.reset();
  loop_->Cancel(reservation_timer_);
  PostChanged();
}

void ClockGuard::NoteUseEnded() {
  if (state_ == State::kHeld) WatchIdle();
}

void ClockGuard::WatchIdle() {
  loop_->Cancel(idle_timer_);
  idle_timer_ = After(options_.idle_after, &ClockGuard::OnIdle);
}

void ClockGuard::OnIdle() {
  // The end of what measures is told again.
  if (state_ == State::kHeld && !options_.in_use()) Close();
}

absl::Status ClockGuard::Spawn() {
  // From here on the next daemon knows that there may be a process that holds the clock.
  const UniqueFd marker(open(options_.marker.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!marker) return ErrnoStatus(errno, "cannot open {}", options_.marker);
  ASSIGN_OR_RETURN(auto ends, Channel::CreatePair(FrameCodec::kProtobuf));
  ASSIGN_OR_RETURN(
      process_, Subprocess::Start(MakeClockCommand(options_.worker_binary, options_.device_uuid, mhz_, options_.marker),
                                  std::move(ends.second)));
  channel_ = std::move(ends.first);
  return absl::OkStatus();
}

void ClockGuard::Start(int mhz) {
  mhz_ = mhz;
  ++changes_;
  if (const absl::Status spawned = Spawn(); !spawned.ok()) {
    if (!may_be_held_) (void)unlink(options_.marker.c_str());
    LogWarn("exec", "device {}: {}", options_.device_uuid, MessageOf(spawned));
    Refuse(mhz, fmt::format("the clock cannot be {}: no process can be started for it; the daemon's log says why",
                            mhz == 0 ? "freed" : fmt::format("held at {} MHz", mhz)));
    return BecomeFree();
  }
  state_ = State::kStarting;
  channel_watch_ = loop_->Watch(channel_.fd(), EPOLLIN, [this](uint32_t) { ReadChannel(); });
  output_watch_ = loop_->Watch(process_->output_fd(), EPOLLIN, [this](uint32_t) {
    if (process_->ReadOutput()) return;
    loop_->Unwatch(std::exchange(output_watch_, 0));
  });
  exit_watch_ = loop_->Watch(process_->pidfd(), EPOLLIN, [this](uint32_t) { OnExit(); });
  answer_timer_ = After(options_.answer_after, &ClockGuard::GiveUp);
}

void ClockGuard::ReadChannel() {
  ReceivedFrame received;
  std::string error;
  const ReceiveResult result = channel_.Receive(&received, &error);
  if (result == ReceiveResult::kEmpty) return;
  if (result == ReceiveResult::kFrame && state_ == State::kStarting && received.frame.has_prepared()) {
    if (received.frame.prepared().ok()) return OnGranted();
    Refuse(mhz_, PrintableText(received.frame.prepared().message()));
    return Close();
  }
  // It ends, or says what it never says: its exit is what counts.
  loop_->Unwatch(std::exchange(channel_watch_, 0));
}

void ClockGuard::OnGranted() {
  loop_->Cancel(answer_timer_);
  state_ = State::kHeld;
  losses_ = 0;
  ++changes_;
  LogInfo("exec", "the clock of {} is held at {} MHz by process {}", options_.device_uuid, mhz_, process_->pid());
  Reserve(mhz_);
  WatchIdle();
  PostChanged();
}

void ClockGuard::Close() {
  state_ = State::kEnding;
  ++changes_;
  loop_->Unwatch(std::exchange(channel_watch_, 0));
  channel_.Close();
  loop_->Cancel(idle_timer_);
  loop_->Cancel(answer_timer_);
  answer_timer_ = After(options_.answer_after, &ClockGuard::GiveUp);
}

void ClockGuard::GiveUp() {
  const std::string why = "NVML does not answer";
  if (state_ == State::kStarting && mhz_ > 0) {
    Refuse(mhz_, fmt::format("the clock cannot be held at {} MHz: {}", mhz_, why));
    return Close();
  }
  LogWarn("exec", "device {}: process {}, which holds its clock, does not end", options_.device_uuid, pid());
  // One that holds the clock frees it when NVML answers; one that only frees it can be replaced.
  if (mhz_ > 0) process_->LetGo();
  // At the end nothing is gained by another one: it would wait for the same answer, or for the marker's lock.
  tried_at_shutdown_ = tried_at_shutdown_ || shut_down_;
  OnEnded(false, why);
}

void ClockGuard::OnExit() {
  const absl::StatusOr<ExitStatus> status = process_->Reap();
  if (!status.ok() && absl::IsUnavailable(status.status())) return;
  (void)process_->ReadOutput();
  std::string how = PrintableText(process_->output().Text());
  while (!how.empty() && how.back() == '\n') how.pop_back();
  if (how.empty() || (status.ok() && !status->exited)) {
    how = "its process ended with " + (status.ok() ? status->ToString() : std::string(MessageOf(status.status())));
  }
  OnEnded(status.ok() && status->ok(), how);
}

void ClockGuard::DropProcess() {
  for (EventLoop::WatchId* watch : {&channel_watch_, &output_watch_, &exit_watch_}) {
    loop_->Unwatch(std::exchange(*watch, 0));
  }
  channel_.Close();
  process_.reset();
}

void ClockGuard::OnEnded(bool is_clean, const std::string& how) {
  // A refusal that has arrived with the exit.
  if (state_ == State::kStarting && channel_watch_ != 0) ReadChannel();
  const bool was_asked = state_ == State::kEnding;
  const bool was_held = state_ == State::kHeld;
  loop_->Cancel(answer_timer_);
  loop_->Cancel(idle_timer_);
  DropProcess();
  ++changes_;
  state_ = State::kEnding;
  if (is_clean && (was_asked || mhz_ == 0)) {
    may_be_held_ = false;
    losses_ = 0;
    return BecomeFree();
  }
  may_be_held_ = access(options_.marker.c_str(), F_OK) == 0;
  ++losses_;
  if (!was_asked && mhz_ == 0) {
    LogWarn("exec", "to free the clock of {} by hand: nvidia-smi -i {} -rgc, then remove {}", options_.device_uuid,
            options_.device_uuid, options_.marker);
    Refuse(0, fmt::format("the clock may still be held and cannot be freed: {}; the daemon's log says how to free it "
                          "by hand",
                          how));
    return BecomeFree();
  }
  LogWarn("exec", "the clock of {} at {} MHz: {}", options_.device_uuid, mhz_, how);
  if (shut_down_ && std::exchange(tried_at_shutdown_, true)) return BecomeFree();
  // A run goes on under the clock that it began with, and a first failure to start may be chance. Else the clock is
  // freed.
  const bool is_tried_again = was_held ? options_.in_use() : !was_asked && losses_ < kFailedStartsMax;
  if (!was_held && !was_asked && !is_tried_again) {
    Refuse(mhz_, fmt::format("the clock cannot be held at {} MHz: {}", mhz_, how));
  }
  if (!may_be_held_) return BecomeFree();
  if (!is_tried_again || shut_down_) mhz_ = 0;
  if (losses_ < 2 || shut_down_) return Start(mhz_);
  start_timer_ = After(kFirstRest * (1 << std::min(losses_ - 2, kRestDoublingsMax)), &ClockGuard::StartAgain);
}

void ClockGuard::StartAgain() { Start(shut_down_ ? 0 : mhz_); }

void ClockGuard::Refuse(int mhz, std::string why) {
  LogWarn("exec", "device {}: {}", options_.device_uuid, why);
  if (reserved_mhz_ == mhz) reserved_mhz_.reset();
  const MonotonicTime now = loop_->clock()->Now();
  std::erase_if(refusals_, [now](const auto& entry) { return entry.second.until <= now; });
  refusals_[mhz] = {std::move(why), now + kRefusalStands};
  // Runs that wait for this clock must call Ask while the refusal is still valid.
  PostChanged();
}

void ClockGuard::BecomeFree() {
  state_ = State::kFree;
  if (shut_down_) {
    if (shutdown_done_ != nullptr) loop_->Post(std::exchange(shutdown_done_, nullptr));
    return;
  }
  if (reserved_mhz_.has_value()) Reserve(*reserved_mhz_);
  PostChanged();
}

void ClockGuard::Shutdown(std::function<void()> done) {
  shut_down_ = true;
  shutdown_done_ = std::move(done);
  reserved_mhz_.reset();
  if (state_ == State::kFree) return BecomeFree();
  if (process_ == nullptr) {  // it rests before it is started again
    loop_->Cancel(start_timer_);
    return Start(0);
  }
  if (state_ == State::kHeld || (state_ == State::kStarting && mhz_ > 0)) Close();
}

}  // namespace tunefarm
