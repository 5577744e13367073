#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tunefarm {

// Owns a file descriptor; closes it exactly once. Move-only, not thread-safe.
class UniqueFd {
 public:
  UniqueFd() = default;
  // Takes ownership. Any negative number means none.
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }

  // Gives ownership away.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }

  // Closes the descriptor held and takes `fd`. Keeps errno.
  void Reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old < 0) return;
    const int saved_errno = errno;
    // Never retried: Linux frees the number even on EINTR, and another thread may own it by now.
    (void)::close(old);
    errno = saved_errno;
  }

 private:
  int fd_ = -1;
};

}  // namespace tunefarm
