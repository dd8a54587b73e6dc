#include "src/soft/segment.h"

#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/pages.h"
#include "src/base/unique_fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mesh::soft {

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

namespace {

// The seals let the holder of our memory only write into it. If the file of a mapping shrank, the
// next access would kill the process.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Returns false for a file beyond the limit, which the kernel would answer with a signal that ends
// the process.
bool may_make_file(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes) return true;
  LOG_WARN(
      "soft fabric: no memfd of {} bytes: this process may make no file of more than {} (ulimit "
      "-f)",
      bytes, limit.rlim_cur);
  return false;
}

// Returns an invalid descriptor, and logs a line, if it cannot make a memfd.
UniqueFd make_memfd(std::size_t bytes) {
  if (!may_make_file(bytes)) return {};
  UniqueFd fd(::memfd_create("mesh-soft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made = fd.valid() && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0;
  if (!made || ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    LOG_WARN("soft fabric: no memfd of {} bytes: {}", bytes, std::strerror(errno));
    return {};
  }
  fork_close_fd(fd.get());
  return fd;
}

}  // namespace

Result<Segment> Segment::create(std::size_t bytes, Sharing sharing) {
  Segment segment;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (sharing == Sharing::Host) {
    segment.fd_ = make_memfd(bytes);
    if (!segment.fd_.valid()) return Errc::System;
    flags = MAP_SHARED | MAP_NORESERVE;
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, segment.fd_.get(), 0);
  if (data == MAP_FAILED) {
    LOG_WARN("soft fabric: {} bytes of memory cannot be mapped: {}", bytes, std::strerror(errno));
    return Errc::System;
  }
  segment.memory_ = Mapping(data, bytes);
  return segment;
}

Result<Segment> Segment::map(UniqueFd fd, std::size_t bytes) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    LOG_WARN("soft fabric: a peer's memory is refused: it is not sealed against shrinking");
    return Errc::Protocol;
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < static_cast<off_t>(bytes)) {
    LOG_WARN("soft fabric: a peer's memory has {} bytes, not {}", info.st_size, bytes);
    return Errc::Protocol;
  }
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (data == MAP_FAILED) {
    LOG_WARN("soft fabric: {} bytes of a peer's memory cannot be mapped: {}", bytes,
             std::strerror(errno));
    return Errc::System;
  }
  Segment segment;
  segment.memory_ = Mapping(data, bytes);
  return segment;
}

namespace {

// Returns true if this process may read the address, by a system call that every emulator has.
bool pipe_takes(const void* address) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return true;
  const UniqueFd read_end(ends[0]), write_end(ends[1]);
  return ::write(write_end.get(), address, 1) == 1;
}

// Returns true if the process may read the address. A system call asks, because a load would crash
// where it may not.
bool may_touch(void* address) {
  char byte = 0;
  const iovec local{&byte, 1};
  const iovec remote{address, 1};
  if (::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1) return true;
  return errno == ENOSYS && pipe_takes(address);
}

}  // namespace

int DeviceMapping::of_buffer(const verbs::DmaBufferRange& range, DeviceMapping* mapping) {
  const std::uint64_t page = page_bytes(), lead = range.offset % page;
  if (lead != range.address % page) return EINVAL;
  if (::fcntl(range.fd, F_GETFD) < 0) return EBADF;
  if (::fcntl(range.fd, F_GET_SEALS) < 0) return EINVAL;  // only a memory file has seals
  struct stat info {};
  std::uint64_t end = 0;
  if (range.bytes == 0 || __builtin_add_overflow(range.offset, range.bytes, &end) ||
      ::fstat(range.fd, &info) != 0 || end > static_cast<std::uint64_t>(info.st_size))
    return EINVAL;
  void* const pages = ::mmap(nullptr, lead + range.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                             range.fd, static_cast<off_t>(range.offset - lead));
  if (pages == MAP_FAILED) return ENOMEM;
  mapping->pages_ = Mapping(pages, lead + range.bytes);
  mapping->lead_ = lead;
  return 0;
}

int DeviceMapping::of_address(void* address, std::size_t bytes, DeviceMapping* mapping) {
  if (may_touch(address)) return 0;
  const std::uint64_t lead = reinterpret_cast<std::uintptr_t>(address) % page_bytes();
  auto* const first = static_cast<std::byte*>(address) - lead;
  // For a shared mapping, an old size of 0 makes a second mapping of its pages (mremap(2)).
  void* const pages = ::mremap(first, 0, lead + bytes, MREMAP_MAYMOVE);
  if (pages == MAP_FAILED) return EFAULT;
  mapping->pages_ = Mapping(pages, lead + bytes);
  mapping->lead_ = lead;
  return ::mprotect(pages, lead + bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : EFAULT;
}

}  // namespace mesh::soft
