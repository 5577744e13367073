#include <unistd.h>

#include <csignal>

#include "client/cli/app.h"

int main(int argc, char** argv) {
  // A closed pipe (tunefarm results | head) ends the program quietly instead of failing a write.
  signal(SIGPIPE, SIG_DFL);
  tunefarm::cli::Session session;
  session.err_is_terminal = isatty(STDERR_FILENO) != 0 && session.environment("TERM").value_or("") != "dumb";
  session.use_color = session.err_is_terminal && !session.environment("NO_COLOR").has_value();
  return tunefarm::cli::RunCommandLine({argv + 1, argv + argc}, &session);
}
