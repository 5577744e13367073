#pragma once

#include <string_view>

#include "server/base/clock.h"

struct pg_conn;
struct pg_result;

namespace tunefarm::postgres {

class Presence;

// How long a connection waits for its server. By the machine's own clock: nothing else ends a wait for a server that
// hangs, whose kernel goes on acknowledging what it is sent.
struct Patience {
  Duration call_max = std::chrono::seconds(35);  // a call that takes longer is over
  Duration silent_after =
      std::chrono::seconds(2);   // then `presence` is told, and whether to go on waiting is its to say
  Presence* presence = nullptr;  // outlives the wire; null: nobody is told
};

// What has come of waiting.
enum class Waited {
  kAnswered,  // or failed: libpq knows
  kAway,      // presence says that the server does not answer at all
  kTooLong
};

// All waiting for the server on one connection, through libpq's calls that never block. After anything but kAnswered
// the connection is of no use any more: an answer to what nobody waits for may come at any time. Belongs to one thread
// at a time.
class Wire {
 public:
  // The connection was begun with PQconnectStartParams, and outlives this.
  Wire(pg_conn* connection, Patience patience) : connection_(connection), patience_(patience) {}

  void set_call_max(Duration call_max) { patience_.call_max = call_max; }

  // Until the connection stands, or libpq says that it does not.
  Waited Connect();
  // Sends what one of libpq's PQsend… calls has left, and reads all that comes of it. The last result, as PQexec; null
  // when there is none. The caller's to clear.
  Waited Finish(pg_result** result);
  // Of a COPY FROM STDIN that has begun, until libpq has passed it on. `is_refused`: Finish knows why.
  Waited PutCopy(std::string_view bytes, bool* is_refused);

 private:
  // One call's waits.
  struct Wait {
    MonotonicTime began;
    Duration tell_after;  // since it began: to tell presence, again and again
  };
  Wait Begin() const;
  // Until the socket has one of the poll(2) events.
  Waited ForSocket(short events, Wait* wait) const;
  // Until PQgetResult would not block.
  Waited ForResult(Wait* wait) const;

  pg_conn* const connection_;
  Patience patience_;
};

}  // namespace tunefarm::postgres
