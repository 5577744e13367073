#include "client/cli/interruption.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "server/base/check.h"

namespace tunefarm::cli {
namespace {

// Where the signal handler writes; -1: nobody listens.
std::atomic<int> interruption_fd{-1};

extern "C" void OnInterruption(int) {
  const int fd = interruption_fd.load();
  const int saved_errno = errno;
  // A full pipe has told its story already.
  if (fd >= 0) (void)!write(fd, "i", 1);
  errno = saved_errno;
}

}  // namespace

Interruption::Interruption() {
  int ends[2] = {-1, -1};
  TUNEFARM_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  reader_.Reset(ends[0]);
  writer_.Reset(ends[1]);
  interruption_fd.store(writer_.get());
  struct sigaction action = {};
  action.sa_handler = OnInterruption;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
  thread_ = Thread("interruption", [this] { Listen(); });
}

Interruption::~Interruption() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  interruption_fd.store(-1);
  (void)!write(writer_.get(), "q", 1);
  thread_.Join();
}

void Interruption::Guard(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  context_ = context;
  if (context_ != nullptr && happened_.load()) context_->TryCancel();
}

void Interruption::Listen() {
  char c = 0;
  while (true) {
    const ssize_t n = read(reader_.get(), &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n != 1 || c == 'q') return;
    if (happened_.exchange(true) && !again_.HasBeenNotified()) again_.Notify();
    MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
}

}  // namespace tunefarm::cli
