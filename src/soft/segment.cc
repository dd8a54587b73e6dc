#include "src/soft/segment.h"

#include "src/base/fork_guard.h"
#include "src/base/log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace mesh::soft {

Segment::Segment(Segment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      fd_(std::move(other.fd_)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

Segment::~Segment() {
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
  segment.data_ = static_cast<std::byte*>(data);
  segment.bytes_ = bytes;
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
  segment.data_ = static_cast<std::byte*>(data);
  segment.bytes_ = bytes;
  return segment;
}

}  // namespace mesh::soft
