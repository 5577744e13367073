#include "client/cli/session.h"

#include "server/base/status_macros.h"

namespace tunefarm::cli {

absl::StatusOr<Connection*> Session::connection() {
  if (!connection_) {
    ASSIGN_OR_RETURN(connection_, Connection::Open(connect, environment));
  }
  return connection_.get();
}

void Session::Note(std::string_view text) const {
  if (quiet) return;
  std::fwrite(text.data(), 1, text.size(), err);
  std::fputc('\n', err);
}

}  // namespace tunefarm::cli
