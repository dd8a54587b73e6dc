// Replaces calls of libc. Each asks the door whether it is the one to fail, and otherwise calls
// libc.

#include "tests/os_faults/door.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/random.h>

namespace door = mesh::testkit::door;
using door::Kind;

// The names that glibc itself has for these calls; dlsym would allocate on the way to them.
extern "C" {
void* real_malloc(std::size_t bytes) __asm__("__libc_malloc");
void* real_calloc(std::size_t count, std::size_t bytes) __asm__("__libc_calloc");
void* real_realloc(void* memory, std::size_t bytes) __asm__("__libc_realloc");
void* real_memalign(std::size_t alignment, std::size_t bytes) __asm__("__libc_memalign");
void real_free(void* memory) __asm__("__libc_free");
}

namespace {

template <typename Function>
Function* next(const char* symbol) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, symbol));
}

// A thread that a thread of the library makes belongs to the library too.
struct ThreadStart {
  void* (*body)(void*);
  void* argument;
};

void* run_inside(void* raw) {
  const ThreadStart start = *static_cast<ThreadStart*>(raw);
  real_free(raw);
  const door::Inside inside;
  return start.body(start.argument);
}

}  // namespace

#define REPLACES \
  extern "C" [[gnu::visibility("default")]]  // seen by the loaded library and by libc
#define CALLER __builtin_return_address(0)
// Calls libc's function, or fails with an errno and an answer. `...`: the call's arguments.
#define DOOR(kind, error, answer, name, ...)                    \
  if (door::fails(Kind::kind, #name, CALLER)) {                 \
    errno = error;                                              \
    return answer;                                              \
  }                                                             \
  static auto* const real_##name = next<decltype(name)>(#name); \
  return real_##name(__VA_ARGS__)

// ---- Threads.

REPLACES int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                            void* (*body)(void*), void* argument) noexcept {
  if (door::fails(Kind::Thread, "pthread_create", CALLER)) return EAGAIN;
  static auto* const real = next<decltype(pthread_create)>("pthread_create");
  if (!door::is_inside()) return real(thread, attributes, body, argument);
  auto* const start = new (real_malloc(sizeof(ThreadStart))) ThreadStart{body, argument};
  const int error = real(thread, attributes, run_inside, start);
  if (error != 0) real_free(start);
  return error;
}

// ---- Descriptors.

REPLACES int socket(int domain, int type, int protocol) noexcept {
  DOOR(Descriptor, EMFILE, -1, socket, domain, type, protocol);
}
REPLACES int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  DOOR(Descriptor, EMFILE, -1, accept4, fd, address, bytes, flags);
}
REPLACES int epoll_create1(int flags) noexcept {
  DOOR(Descriptor, EMFILE, -1, epoll_create1, flags);
}
REPLACES int eventfd(unsigned count, int flags) noexcept {
  DOOR(Descriptor, EMFILE, -1, eventfd, count, flags);
}
REPLACES int memfd_create(const char* name, unsigned flags) noexcept {
  DOOR(Descriptor, EMFILE, -1, memfd_create, name, flags);
}
REPLACES int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (door::fails(Kind::Descriptor, "open", CALLER)) return errno = EMFILE, -1;
  if (door::fails(Kind::File, "open", CALLER)) return errno = EIO, -1;
  return ::openat(AT_FDCWD, path, flags, mode);
}
REPLACES FILE* fopen64(const char* path, const char* mode) {
  if (door::fails(Kind::Descriptor, "fopen64", CALLER)) return errno = EMFILE, nullptr;
  DOOR(File, EIO, nullptr, fopen64, path, mode);
}

// ---- Sockets.

REPLACES int bind(int fd, const sockaddr* address, socklen_t bytes) noexcept {
  DOOR(Socket, ENOBUFS, -1, bind, fd, address, bytes);
}
REPLACES int listen(int fd, int backlog) noexcept {
  DOOR(Socket, ENOBUFS, -1, listen, fd, backlog);
}
REPLACES int connect(int fd, const sockaddr* address, socklen_t bytes) {
  DOOR(Socket, ENOBUFS, -1, connect, fd, address, bytes);
}
REPLACES int getsockname(int fd, sockaddr* address, socklen_t* bytes) noexcept {
  DOOR(Socket, ENOBUFS, -1, getsockname, fd, address, bytes);
}
REPLACES int getpeername(int fd, sockaddr* address, socklen_t* bytes) noexcept {
  DOOR(Socket, ENOBUFS, -1, getpeername, fd, address, bytes);
}
// NOLINTNEXTLINE(readability-function-size): libc's signature
REPLACES int getsockopt(int fd, int level, int name, void* value, socklen_t* bytes) noexcept {
  DOOR(Socket, ENOBUFS, -1, getsockopt, fd, level, name, value, bytes);
}
// NOLINTNEXTLINE(readability-function-size): libc's signature
REPLACES int setsockopt(int fd, int level, int name, const void* value, socklen_t bytes) noexcept {
  DOOR(Socket, ENOBUFS, -1, setsockopt, fd, level, name, value, bytes);
}
REPLACES int epoll_ctl(int epoll, int what, int fd, epoll_event* event) noexcept {
  DOOR(Socket, ENOMEM, -1, epoll_ctl, epoll, what, fd, event);
}
REPLACES ssize_t send(int fd, const void* data, std::size_t bytes, int flags) {
  DOOR(Socket, ECONNRESET, -1, send, fd, data, bytes, flags);
}
REPLACES ssize_t recv(int fd, void* data, std::size_t bytes, int flags) {
  DOOR(Socket, ECONNRESET, -1, recv, fd, data, bytes, flags);
}
REPLACES ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  DOOR(Socket, ENOBUFS, -1, sendmsg, fd, message, flags);
}
REPLACES ssize_t recvmsg(int fd, msghdr* message, int flags) {
  DOOR(Socket, ENOMEM, -1, recvmsg, fd, message, flags);
}
REPLACES int shutdown(int fd, int how) noexcept { DOOR(Socket, ENOTCONN, -1, shutdown, fd, how); }
REPLACES int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  DOOR(Socket, EIO, -1, fcntl, fd, command, argument);
}

// ---- Files.

REPLACES ssize_t read(int fd, void* data, std::size_t bytes) {
  DOOR(File, EIO, -1, read, fd, data, bytes);
}
REPLACES ssize_t write(int fd, const void* data, std::size_t bytes) {
  DOOR(File, ENOSPC, -1, write, fd, data, bytes);
}
REPLACES int rename(const char* from, const char* to) noexcept {
  DOOR(File, EIO, -1, rename, from, to);
}
REPLACES int unlink(const char* path) noexcept { DOOR(File, EIO, -1, unlink, path); }
REPLACES int stat(const char* path, struct stat* about) noexcept {
  DOOR(File, EIO, -1, stat, path, about);
}
REPLACES int fstat(int fd, struct stat* about) noexcept { DOOR(File, EIO, -1, fstat, fd, about); }
REPLACES char* realpath(const char* path, char* resolved) noexcept {
  DOOR(File, EIO, nullptr, realpath, path, resolved);
}

// ---- Addresses and names.

REPLACES int getifaddrs(ifaddrs** list) noexcept {
  if (door::fails(Kind::Address, "getifaddrs", CALLER)) {
    *list = nullptr;
    errno = ENOMEM;
    return door::empty_answer() ? 0 : -1;
  }
  static auto* const real = next<decltype(getifaddrs)>("getifaddrs");
  return real(list);
}
REPLACES unsigned if_nametoindex(const char* name) noexcept {
  DOOR(Address, ENODEV, 0, if_nametoindex, name);
}
REPLACES char* if_indextoname(unsigned index, char* name) noexcept {
  DOOR(Address, ENXIO, nullptr, if_indextoname, index, name);
}
REPLACES int gethostname(char* name, std::size_t bytes) noexcept {
  DOOR(Address, EPERM, -1, gethostname, name, bytes);
}

// ---- Other calls that the system may refuse.

REPLACES ssize_t getrandom(void* data, std::size_t bytes, unsigned flags) {
  DOOR(Other, ENOSYS, -1, getrandom, data, bytes, flags);
}
REPLACES int sched_setaffinity(pid_t pid, std::size_t bytes, const cpu_set_t* set) noexcept {
  DOOR(Other, EPERM, -1, sched_setaffinity, pid, bytes, set);
}
REPLACES int sched_getaffinity(pid_t pid, std::size_t bytes, cpu_set_t* set) noexcept {
  DOOR(Other, EPERM, -1, sched_getaffinity, pid, bytes, set);
}
REPLACES int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  if (door::fails(Kind::Other, "pthread_setname_np", CALLER)) return EIO;
  if (std::strcmp(name, "mesh-stats") == 0) door::this_thread_writes_metrics();
  static auto* const real = next<decltype(pthread_setname_np)>("pthread_setname_np");
  return real(thread, name);
}

// ---- Libraries. hwloc cannot be loaded: how it behaves without memory is not ours to test, and
// without it the plugin asks the kernel itself.

REPLACES void* dlopen(const char* name, int flags) noexcept {
  static auto* const real = next<decltype(dlopen)>("dlopen");
  const bool hwloc = name != nullptr && std::strstr(name, "hwloc") != nullptr && door::is_inside();
  return real(hwloc ? "no-such-library.so" : name, flags);
}

// ---- Memory.

namespace {

void* noted(void* memory, std::size_t bytes, const void* caller) noexcept {
  door::note_block(memory, bytes, caller);
  return memory;
}

void* no_memory() noexcept {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

REPLACES void* malloc(std::size_t bytes) noexcept {
  if (door::fails(Kind::Memory, "malloc", CALLER)) return no_memory();
  return noted(real_malloc(bytes), bytes, CALLER);
}
REPLACES void* calloc(std::size_t count, std::size_t bytes) noexcept {
  if (door::fails(Kind::Memory, "calloc", CALLER)) return no_memory();
  return noted(real_calloc(count, bytes), count * bytes, CALLER);
}
REPLACES void* realloc(void* memory, std::size_t bytes) noexcept {
  if (door::fails(Kind::Memory, "realloc", CALLER)) return no_memory();
  door::forget_block(memory);
  return noted(real_realloc(memory, bytes), bytes, CALLER);
}
REPLACES void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  if (door::fails(Kind::Memory, "aligned_alloc", CALLER)) return no_memory();
  return noted(real_memalign(alignment, bytes), bytes, CALLER);
}
REPLACES int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  if (door::fails(Kind::Memory, "posix_memalign", CALLER)) return ENOMEM;
  *memory = noted(real_memalign(alignment, bytes), bytes, CALLER);
  return *memory == nullptr ? ENOMEM : 0;
}
REPLACES void free(void* memory) noexcept {
  door::forget_block(memory);
  real_free(memory);
}
// NOLINTNEXTLINE(readability-function-size): libc's signature
REPLACES void* mmap(void* address, std::size_t bytes, int protection, int flags, int fd,
                    off_t offset) noexcept {
  DOOR(Memory, ENOMEM, MAP_FAILED, mmap, address, bytes, protection, flags, fd, offset);
}
REPLACES int ftruncate(int fd, off_t bytes) noexcept {
  DOOR(Memory, ENOSPC, -1, ftruncate, fd, bytes);
}
