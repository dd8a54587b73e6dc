#pragma once
// Runs a part of a test in a child process: as another user, in a network of its own, or beside the
// test. Thread: the test's. The child ends without running the test's destructors.

#include "tests/prelude.h"

#include <grp.h>

namespace mesh::testkit {

inline constexpr uid_t kNobody = 65534;

// Returns false if the process has no right to change its user.
inline bool become_nobody() {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

inline bool write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool good =
      fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) ::close(fd);
  return good;
}

// Moves the process into a new network namespace and keeps its user. Returns false if the process
// has no right to.
inline bool leave_network() {
  const std::string user = std::to_string(::geteuid());
  if (::unshare(CLONE_NEWNET) == 0) return true;
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  return write_text("/proc/self/uid_map", user + " " + user + " 1");
}

// Runs body(fd) in a forked process, whose exit status is the result of body. fd is one end of a
// socket pair, and Child holds its peer. The child dies with the test.
class Child {
 public:
  explicit Child(const std::function<int(int fd)>& body) {
    int fds[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(fds[0]);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(body(fds[1]));
    }
    ::close(fds[1]);
    fd_ = fds[0];
  }
  ~Child() { join(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Returns the next value that the child sends, or -1 if the child has ended.
  int next() const {
    int value = 0;
    return ::recv(fd_, &value, sizeof value, 0) == static_cast<ssize_t>(sizeof value) ? value : -1;
  }
  bool say(int value) const { return tell(fd_, value); }
  // Closes the socket and waits for the child. Returns its exit status or, negated, the signal that
  // killed it.
  int join() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    if (pid_ <= 0) return status_;
    int status = 0;
    if (::waitpid(pid_, &status, 0) == pid_)
      status_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    pid_ = 0;
    return status_;
  }

  // The child's end of the conversation.
  static bool tell(int fd, int value) {
    return ::send(fd, &value, sizeof value, MSG_NOSIGNAL) == sizeof value;
  }
  static int hear(int fd) {
    int value = 0;
    return ::recv(fd, &value, sizeof value, 0) == static_cast<ssize_t>(sizeof value) ? value : -1;
  }

 private:
  pid_t pid_ = 0;
  int fd_ = -1, status_ = 0;
};

}  // namespace mesh::testkit
