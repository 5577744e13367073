#include "server/store/postgres/wire.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "server/store/postgres/presence.h"

namespace tunefarm::postgres {
namespace {

// How often a wait looks whether others have found out that the server is away.
constexpr Duration kLookMax = std::chrono::milliseconds(100);

int CeilMs(Duration duration) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(std::max(duration, Duration::zero())).count());
}

}  // namespace

Wire::Wait Wire::Begin() const { return {Clock::Real()->Now(), patience_.silent_after}; }

Waited Wire::ForSocket(short events, Wait* wait) const {
  while (true) {
    const Duration waited = Clock::Real()->Now() - wait->began;
    if (waited >= patience_.call_max) return Waited::kTooLong;
    Duration look = patience_.call_max - waited;
    if (patience_.presence != nullptr) {
      if (patience_.presence->is_away()) return Waited::kAway;
      if (waited >= wait->tell_after) {
        wait->tell_after = waited + patience_.silent_after;
        patience_.presence->Suspect();
      }
      look = std::min({look, kLookMax, wait->tell_after - waited});
    }
    // Whatever is wrong with the socket is libpq's to find out.
    pollfd socket = {PQsocket(connection_), events, 0};
    if (socket.fd < 0) return Waited::kAnswered;
    const int ready = poll(&socket, 1, CeilMs(look));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return Waited::kAnswered;
  }
}

Waited Wire::ForResult(Wait* wait) const {
  while (true) {
    // A server that has closed the connection may have said why: what cannot be sent does not keep from reading.
    const bool is_sending = PQflush(connection_) == 1;
    if (!is_sending && PQisBusy(connection_) == 0) return Waited::kAnswered;
    const short events = is_sending ? POLLIN | POLLOUT : POLLIN;
    if (const Waited waited = ForSocket(events, wait); waited != Waited::kAnswered) return waited;
    // A failure becomes the result.
    if (PQconsumeInput(connection_) == 0) return Waited::kAnswered;
  }
}

Waited Wire::Connect() {
  Wait wait = Begin();
  PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  while (PQstatus(connection_) != CONNECTION_BAD) {
    const short events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (const Waited waited = ForSocket(events, &wait); waited != Waited::kAnswered) return waited;
    next = PQconnectPoll(connection_);
    if (next == PGRES_POLLING_OK || next == PGRES_POLLING_FAILED) break;
  }
  // Cannot fail: nothing has been sent yet.
  PQsetnonblocking(connection_, 1);
  return Waited::kAnswered;
}

Waited Wire::Finish(pg_result** result) {
  Wait wait = Begin();
  *result = nullptr;
  while (true) {
    if (const Waited waited = ForResult(&wait); waited != Waited::kAnswered) {
      PQclear(*result);
      *result = nullptr;
      return waited;
    }
    PGresult* const next = PQgetResult(connection_);
    if (next == nullptr) return Waited::kAnswered;
    PQclear(*result);
    *result = next;
    // The server waits for data, and there is no end before it has them.
    if (PQresultStatus(next) == PGRES_COPY_IN) return Waited::kAnswered;
  }
}

Waited Wire::PutCopy(std::string_view bytes, bool* is_refused) {
  Wait wait = Begin();
  *is_refused = PQputCopyData(connection_, bytes.data(), static_cast<int>(bytes.size())) != 1;
  // libpq would gather without end what the server does not take.
  while (!*is_refused && PQflush(connection_) == 1) {
    if (const Waited waited = ForSocket(POLLIN | POLLOUT, &wait); waited != Waited::kAnswered) return waited;
    *is_refused = PQconsumeInput(connection_) == 0;
  }
  return Waited::kAnswered;
}

}  // namespace tunefarm::postgres
