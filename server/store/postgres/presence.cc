#include "server/store/postgres/presence.h"

#include <chrono>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm::postgres {
namespace {

// Between two probes of a server that is away.
constexpr std::chrono::milliseconds kProbePause(250);

}  // namespace

Presence::Presence(std::string server, Probe probe)
    : server_(std::move(server)), probe_(std::move(probe)), thread_("store-presence", [this] { Work(); }) {}

Presence::~Presence() {
  {
    MutexLock lock(&mutex_);
    is_closing_ = true;
    wake_.NotifyAll();
  }
  thread_.Join();
}

absl::Status Presence::Check() const {
  if (!is_away()) return absl::OkStatus();
  return Unavailable(
      "{} does not answer; it is asked again until it does, and this call was not made meanwhile: try again", server_);
}

void Presence::Suspect() {
  MutexLock lock(&mutex_);
  if (is_suspected_) return;
  is_suspected_ = true;
  wake_.NotifyAll();
}

void Presence::Note(bool answered) {
  const bool was_away = is_away_.exchange(!answered, std::memory_order_acq_rel);
  if (was_away && answered) LogInfo("store", "{} answers again", server_);
  if (!was_away && !answered) LogWarn("store", "{} does not answer: calls fail until it does", server_);
}

void Presence::Work() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (is_away() && !is_closing_) wake_.WaitFor(&mutex_, kProbePause);
      while (!is_away() && !is_suspected_ && !is_closing_) wake_.Wait(&mutex_);
      if (is_closing_) return;
    }
    Note(probe_());
    MutexLock lock(&mutex_);
    is_suspected_ = false;
  }
}

}  // namespace tunefarm::postgres
