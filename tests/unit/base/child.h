#pragma once
// A part of a test in a process of its own: as another user, in a network of its own, or beside the
// test itself. Thread: the test's. The child ends without the test's destructors.

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace mesh::testkit {

inline constexpr uid_t kNobody = 65534;

// False: we may not.
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

// A network namespace of our own, the same user in it. False: we may not.
inline bool leave_network() {
  const std::string user = std::to_string(::geteuid());
  if (::unshare(CLONE_NEWNET) == 0) return true;
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  return write_text("/proc/self/uid_map", user + " " + user + " 1");
}

// Runs body(fd) in a forked process, whose exit status is what it answers; fd is one end of a pair
// of sockets, the other is ours. The child dies with the test.
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
  // What the child says next; -1: it has ended.
  int next() const {
    int value = 0;
    return ::recv(fd_, &value, sizeof value, 0) == static_cast<ssize_t>(sizeof value) ? value : -1;
  }
  bool say(int value) const { return tell(fd_, value); }
  // Ends the conversation and waits. The exit status; below zero, the signal that killed it.
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

  // For the child: the same conversation from its end.
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
