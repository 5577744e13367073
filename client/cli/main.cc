#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "client/cli/app.h"

namespace {

// What is closed would be opened again as a socket or a file. Writing to a standard output that was closed fails.
void OpenStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardStreams();
  // A closed pipe (tunefarm results | head) ends the program quietly instead of failing a write.
  signal(SIGPIPE, SIG_DFL);
  tunefarm::cli::Session session;
  const bool is_dumb = session.environment("TERM").value_or("") == "dumb";
  session.in_is_terminal = isatty(STDIN_FILENO) != 0;
  session.err_is_terminal = isatty(STDERR_FILENO) != 0 && !is_dumb;
  // An empty NO_COLOR counts as unset, as no-color.org has it.
  session.use_color = isatty(STDOUT_FILENO) != 0 && !is_dumb && session.environment("NO_COLOR").value_or("").empty();
  session.columns = tunefarm::TerminalColumns(stdout);
  return tunefarm::cli::RunCommandLine({argv + 1, argv + argc}, &session);
}
