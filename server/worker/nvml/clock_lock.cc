#include "server/worker/nvml/clock_lock.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "server/base/status.h"
#include "server/exec/channel.h"
#include "server/exec/frame_limits.h"
#include "server/worker/nvml/clock_marker.h"
#include "server/worker/nvml/nvml.h"

namespace tunefarm::cuda {
namespace {

// Those that a terminal, a service manager or a closed pipe sends: a held clock must be freed first.
void IgnoreSignals() {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2}) {
    signal(number, SIG_IGN);
  }
}

// Why the clock is not free; empty: it is.
std::string FreeClock(const Nvml* nvml, const std::string& device_uuid) {
  if (nvml == nullptr) return "NVML was not found or does not start";
  const std::string error = nvml->ResetClock(device_uuid);
  return error.empty() ? "" : "NVML says " + error;
}

// Why it is not held; empty: it is.
std::string TakeClock(const Nvml* nvml, const ClockLock& lock) {
  if (nvml == nullptr) return "NVML was not found or does not start; leave out locked_clock_mhz";
  const int max_mhz = nvml->MaxClockMhz(lock.device_uuid);
  if (max_mhz > 0 && lock.mhz > max_mhz) return fmt::format("the highest is {} MHz", max_mhz);
  const std::string error = nvml->LockClock(lock.device_uuid, lock.mhz);
  if (error.empty()) return "";
  const char* const otherwise = error == Nvml::kNoPermission ? "run the daemon as root or leave out" : "leave out";
  return fmt::format("NVML says {}; {} locked_clock_mhz", error, otherwise);
}

bool HasHungUp(const Channel& channel) {
  pollfd entry = {channel.fd(), POLLIN | POLLRDHUP, 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLRDHUP)) != 0;
}

int Refuse(const ClockLock& lock, std::string_view why, Channel* channel) {
  tunefarm::worker::v1::Frame frame;
  frame.mutable_prepared()->set_outcome(tunefarm::v1::OUTCOME_LOST);
  frame.mutable_prepared()->set_message(
      fmt::format("the clock cannot be held at {} MHz: {}", lock.mhz, why).substr(0, kFrameMessageBytesMax));
  (void)channel->Send(frame);
  return kWorkerExitOk;
}

// The clock must be free, or is to be freed: the marker goes with it.
int FreeAndForget(const Nvml* nvml, const std::string& device_uuid, ClockMarker* marker) {
  std::string error = FreeClock(nvml, device_uuid);
  if (error.empty()) error = MessageOf(marker->Remove());
  if (error.empty()) return kWorkerExitOk;
  fmt::print(stderr, "{}\n", error);
  return kWorkerExitBackend;
}

}  // namespace

int HoldClock(const ClockLock& lock, UniqueFd channel_fd) {
  IgnoreSignals();
  Channel channel(std::move(channel_fd), FrameCodec::kProtobuf);
  absl::StatusOr<ClockMarker> marker = ClockMarker::Take(lock.marker);
  if (!marker.ok()) {
    fmt::print(stderr, "{}\n", MessageOf(marker.status()));
    return lock.mhz == 0 ? kWorkerExitBackend : Refuse(lock, MessageOf(marker.status()), &channel);
  }
  const bool was_left = marker->was_left();
  if (lock.mhz == 0 && !was_left) {
    (void)marker->Remove();
    return kWorkerExitOk;
  }
  // The next daemon may be at work already: what finds its daemon gone holds nothing any more.
  const bool is_gone = lock.mhz > 0 && HasHungUp(channel);
  if (is_gone && !was_left) {
    (void)marker->Remove();
    return kWorkerExitOk;
  }
  const std::unique_ptr<Nvml> nvml = Nvml::Open();
  if (lock.mhz == 0 || is_gone) return FreeAndForget(nvml.get(), lock.device_uuid, &*marker);
  const absl::Status written = marker->Write(lock.device_uuid, lock.mhz);
  std::string refusal = written.ok() ? TakeClock(nvml.get(), lock) : std::string(MessageOf(written));
  if (!refusal.empty()) {
    // It is as before: free, unless an earlier process has left it held.
    const int code = Refuse(lock, refusal, &channel);
    if (was_left) return FreeAndForget(nvml.get(), lock.device_uuid, &*marker);
    (void)marker->Remove();
    return code;
  }
  tunefarm::worker::v1::Frame frame;
  frame.mutable_prepared()->set_ok(true);
  if (channel.Send(frame).ok()) {
    ReceivedFrame received;
    std::string error;
    while (channel.Receive(&received, &error) == ReceiveResult::kFrame) {
    }
  }
  return FreeAndForget(nvml.get(), lock.device_uuid, &*marker);
}

}  // namespace tunefarm::cuda
