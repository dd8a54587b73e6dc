#include "tests/unit/engine/data/trap.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

// glibc's internal names of these functions. A replacement needs the original.
extern "C" {
void* real_malloc(std::size_t bytes) __asm__("__libc_malloc");
void* real_calloc(std::size_t count, std::size_t bytes) __asm__("__libc_calloc");
void* real_realloc(void* memory, std::size_t bytes) __asm__("__libc_realloc");
void* real_memalign(std::size_t alignment, std::size_t bytes) __asm__("__libc_memalign");
void real_free(void* memory) __asm__("__libc_free");
int mesh_real_mutex_lock(pthread_mutex_t* mutex);
}
#if defined(__aarch64__)  // the first glibc for this architecture had this version
__asm__(".symver mesh_real_mutex_lock, __pthread_mutex_lock@GLIBC_2.17");
#else
__asm__(".symver mesh_real_mutex_lock, __pthread_mutex_lock@GLIBC_2.2.5");
#endif

extern char g_binary_start __asm__("__executable_start");  // the linker's start of this binary

namespace mesh::testkit {
namespace {

constexpr rlim_t kProcessorSecondsMax = 60;

// Shared with the parent, so that the child needs no system call to report its violation.
struct Note {
  Violation violation;
  long number;  // the system call's
  std::uintptr_t caller;
};
Note* g_note = nullptr;
constinit thread_local bool t_armed = false;

[[noreturn]] void violated(Violation violation, long number, std::uintptr_t caller) {
  *g_note = {violation, number, caller};
  leave(1);
}

void on_system_call(int, siginfo_t* info, void*) {
  violated(Violation::SystemCall, info->si_syscall,
           reinterpret_cast<std::uintptr_t>(info->si_call_addr));
}

std::string text_of(const Note& note) {
  static constexpr std::array kNames{"nothing", "system call", "memory allocation", "lock"};
  std::array<char, 128> text{};
  std::snprintf(
      text.data(), text.size(), "%s (number %ld) from %#zx in this binary",
      kNames[static_cast<std::size_t>(note.violation)], note.number,
      static_cast<std::size_t>(note.caller - reinterpret_cast<std::uintptr_t>(&g_binary_start)));
  return text.data();
}

}  // namespace

void leave(int code) {
  for (;;) ::syscall(SYS_exit_group, code);
}

void arm() {
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSYS, &action, nullptr);
  // TRAP and KILL both stop the call before it is made, but only with TRAP the report can name it.
  std::array<sock_filter, 4> rules{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)}};
  const sock_fprog program{.len = rules.size(), .filter = rules.data()};
  t_armed = true;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) leave(2);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) leave(2);
}

ChildReport run_in_child(const std::function<int()>& work) {
  void* const shared =
      ::mmap(nullptr, sizeof(Note), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("no shared page");
  g_note = new (shared) Note{};
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{kProcessorSecondsMax, kProcessorSecondsMax};
    ::setrlimit(RLIMIT_CPU, &limit);  // the child never sleeps, so this limit ends one that hangs
    leave(work());
  }
  ChildReport report;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  report.violation = g_note->violation;
  if (report.violation != Violation::None) {
    report.text = text_of(*g_note);
  } else if (WIFEXITED(status)) {
    report.code = WEXITSTATUS(status);
  } else {
    report.text = "killed by signal " + std::to_string(WTERMSIG(status));
  }
  ::munmap(shared, sizeof(Note));
  g_note = nullptr;
  return report;
}

namespace {
// Always inlined, so that the return address lies in the caller of the replaced function.
[[gnu::always_inline]] inline void check(Violation violation) {
  if (t_armed)
    violated(violation, 0, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
}
}  // namespace
}  // namespace mesh::testkit

#define REPLACES extern "C" [[gnu::visibility("default")]]  // seen by libstdc++ and libc too
using mesh::testkit::check, mesh::testkit::Violation;

REPLACES void* malloc(std::size_t bytes) noexcept {
  check(Violation::Allocation);
  return real_malloc(bytes);
}
REPLACES void* calloc(std::size_t count, std::size_t bytes) noexcept {
  check(Violation::Allocation);
  return real_calloc(count, bytes);
}
REPLACES void* realloc(void* memory, std::size_t bytes) noexcept {
  check(Violation::Allocation);
  return real_realloc(memory, bytes);
}
REPLACES void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  check(Violation::Allocation);
  return real_memalign(alignment, bytes);
}
REPLACES void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  check(Violation::Allocation);
  return real_memalign(alignment, bytes);
}
REPLACES int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  check(Violation::Allocation);
  *memory = real_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
REPLACES void free(void* memory) noexcept {
  check(Violation::Allocation);
  real_free(memory);
}
REPLACES int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  check(Violation::Lock);
  return mesh_real_mutex_lock(mutex);
}
