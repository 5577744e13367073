#include "server/worker/sandbox/sandbox_root.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <string_view>

namespace tunefarm {
namespace {

constexpr int kLinksMax = 40;  // as many as the kernel follows
// Directories, links and mount points of the root itself; the scratch directory's files.
constexpr int kRootFilesMax = 4096;
constexpr int kScratchFilesMax = 16 * 1024;
constexpr const char* kNodes[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};

// Linux 5.12; the only way to make a tree of mounts read-only at once.
int SetAttributes(const char* path, uint64_t attributes, unsigned flags) {
  mount_attr attr = {};
  attr.attr_set = attributes;
  return static_cast<int>(syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attr, sizeof(attr)));
}

// Throws nothing and stops at the first failure, which it keeps.
class RootBuilder {
 public:
  RootBuilder(std::string staging, uid_t owner, gid_t group)
      : staging_(std::move(staging)), owner_(owner), group_(group) {}

  std::string Build(const RootView& view);
  // Makes it the root. After a failure here the caller's root is as it was.
  bool Pivot();
  const std::string& failure() const { return failure_; }

 private:
  bool Fail(std::string_view what) {
    if (failure_.empty()) failure_ = fmt::format("cannot {}: {}", what, strerrordesc_np(errno));
    return false;
  }
  std::string Inside(const std::string& path) const { return staging_ + path; }
  bool IsCovered(const std::string& path) const {
    return std::any_of(covered_.begin(), covered_.end(), [&path](const std::string& shown) {
      return path == shown ||
             (path.size() > shown.size() && path[shown.size()] == '/' && path.compare(0, shown.size(), shown) == 0);
    });
  }

  bool Show(const std::string& path);
  bool ShowReal(const std::string& real, bool is_directory, uint64_t attributes);
  bool Link(const std::string& path, const std::string& target);
  bool MakeParents(const std::string& path);
  bool Hide(const std::string& path);
  bool ShowNode(const std::string& path);
  bool MountProc(bool writable);

  const std::string staging_;
  const uid_t owner_;
  const gid_t group_;
  std::vector<std::string> covered_;
  std::string failure_;
};

bool RootBuilder::MakeParents(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (mkdir(Inside(path.substr(0, slash)).c_str(), 0755) != 0 && errno != EEXIST) {
      return Fail("make room for " + path);
    }
  }
  return true;
}

bool RootBuilder::Link(const std::string& path, const std::string& target) {
  if (IsCovered(path)) return true;
  if (!MakeParents(path)) return false;
  if (symlink(target.c_str(), Inside(path).c_str()) != 0 && errno != EEXIST) return Fail("make the link " + path);
  return true;
}

bool RootBuilder::ShowReal(const std::string& real, bool is_directory, uint64_t attributes) {
  if (IsCovered(real)) return true;
  if (!MakeParents(real)) return false;
  const std::string inside = Inside(real);
  if (is_directory) {
    if (mkdir(inside.c_str(), 0755) != 0 && errno != EEXIST) return Fail("make room for " + real);
  } else {
    const int fd = open(inside.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return Fail("make room for " + real);
    close(fd);
  }
  if (mount(real.c_str(), inside.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return Fail("show " + real);
  if (SetAttributes(inside.c_str(), attributes, AT_RECURSIVE) != 0) return Fail("protect " + real);
  covered_.push_back(real);
  return true;
}

// Walks like the kernel does, and leaves the links that it follows behind.
bool RootBuilder::Show(const std::string& path) {
  std::deque<std::string> rest;
  const auto prepend = [&rest](std::string_view text) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('/', begin), text.size());
      if (end > begin) parts.emplace_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    rest.insert(rest.begin(), parts.begin(), parts.end());
  };
  prepend(path);
  std::string real;
  struct stat status = {};
  status.st_mode = S_IFDIR;
  int links = 0;
  while (!rest.empty()) {
    const std::string part = rest.front();
    rest.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      real.resize(std::min(real.rfind('/'), real.size()));
      continue;
    }
    const std::string next = real + "/" + part;
    if (lstat(next.c_str(), &status) != 0) return true;  // Not there, or not for us.
    if (!S_ISLNK(status.st_mode)) {
      real = next;
      continue;
    }
    char target[PATH_MAX];
    const ssize_t length = readlink(next.c_str(), target, sizeof(target));
    if (length <= 0 || length == static_cast<ssize_t>(sizeof(target)) || ++links > kLinksMax) return true;
    const std::string text(target, static_cast<size_t>(length));
    if (!Link(next, text)) return false;
    if (text.front() == '/') real.clear();
    prepend(text);
    status.st_mode = S_IFDIR;
  }
  // Showing all there is would hide nothing.
  if (real.empty() || !(S_ISDIR(status.st_mode) || S_ISREG(status.st_mode))) return true;
  return ShowReal(real, S_ISDIR(status.st_mode), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

bool RootBuilder::Hide(const std::string& path) {
  char real[PATH_MAX];
  if (realpath(path.c_str(), real) == nullptr || !IsCovered(real)) return true;
  if (mount("tmpfs", Inside(real).c_str(), "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "mode=0555,size=4k") != 0) {
    return Fail("hide " + path);
  }
  return true;
}

bool RootBuilder::ShowNode(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return true;
  // A directory of nodes: those of MIG.
  if (!S_ISCHR(status.st_mode) && !S_ISDIR(status.st_mode)) return true;
  return ShowReal(path, S_ISDIR(status.st_mode), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

bool RootBuilder::MountProc(bool writable) {
  const std::string proc = Inside("/proc");
  // Its files change more than their process: autogroup the weight of the whole session.
  const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (mkdir(proc.c_str(), 0755) != 0 || mount("proc", proc.c_str(), "proc", flags, nullptr) != 0 ||
      (!writable && SetAttributes(proc.c_str(), MOUNT_ATTR_RDONLY, 0) != 0)) {
    return Fail("mount a fresh /proc");
  }
  // Settings of the whole machine.
  const std::string settings = proc + "/sys", trigger = proc + "/sysrq-trigger";
  if (mount(settings.c_str(), settings.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
      SetAttributes(settings.c_str(), MOUNT_ATTR_RDONLY, 0) != 0) {
    return Fail("protect /proc/sys");
  }
  if (access(trigger.c_str(), F_OK) == 0 && mount("/dev/null", trigger.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return Fail("mask /proc/sysrq-trigger");
  }
  return true;
}

std::string RootBuilder::Build(const RootView& view) {
  const std::string root_options = fmt::format("mode=0755,size=4m,nr_inodes={}", kRootFilesMax);
  if (mount("tmpfs", staging_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, root_options.c_str()) != 0) {
    Fail("mount an empty root");
    return failure_;
  }
  for (const std::string& path : view.shown) {
    if (!Show(path)) return failure_;
  }
  for (const std::string& path : view.hidden) {
    if (!Hide(path)) return failure_;
  }
  for (const char* node : kNodes) {
    if (!ShowNode(node)) return failure_;
  }
  for (const std::string& node : view.devices) {
    if (!ShowNode(node)) return failure_;
  }
  if (!Link("/dev/fd", "/proc/self/fd") || !MountProc(view.proc_writable)) return failure_;
  const std::string scratch = Inside(kScratchInside);
  const std::string options = fmt::format("mode=0700,uid={},gid={},size={},nr_inodes={}", owner_, group_,
                                          view.scratch_bytes_max, kScratchFilesMax);
  constexpr unsigned long kMayRun = MS_NOSUID | MS_NODEV;
  const unsigned long flags = view.scratch_executable ? kMayRun : kMayRun | MS_NOEXEC;
  if (!MakeParents(kScratchInside) || (mkdir(scratch.c_str(), 0755) != 0 && errno != EEXIST) ||
      mount("tmpfs", scratch.c_str(), "tmpfs", flags, options.c_str()) != 0) {
    Fail("mount the scratch directory");
    return failure_;
  }
  if (!Link("/tmp", kScratchInside)) return failure_;
  if (SetAttributes(staging_.c_str(), MOUNT_ATTR_RDONLY, 0) != 0) Fail("protect the root");
  return failure_;
}

bool RootBuilder::Pivot() {
  if (chdir(staging_.c_str()) != 0) return Fail("enter the new root");
  // The old root lands on top of the new one, from where it is taken away.
  if (syscall(SYS_pivot_root, ".", ".") == 0) {
    if (umount2(".", MNT_DETACH) != 0) return Fail("leave the old root");
  } else {
    // A machine that runs from its initial ramdisk has a root that cannot be swapped, but can be covered.
    if (errno != EINVAL || mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 || chroot(".") != 0) {
      return Fail("change the root");
    }
  }
  return chdir("/") == 0 || Fail("enter the new root");
}

}  // namespace

std::string EnterRootView(const RootView& view, const std::string& staging, uid_t owner, gid_t group) {
  RootBuilder builder(staging, owner, group);
  // The worker's uid must get through the directories that are made here.
  const mode_t before = umask(022);
  const bool entered = builder.Build(view).empty() && builder.Pivot();
  (void)umask(before);
  if (entered) return "";
  std::string failure = builder.failure();
  (void)!chdir("/");
  (void)umount2(staging.c_str(), MNT_DETACH);
  return failure;
}

}  // namespace tunefarm
