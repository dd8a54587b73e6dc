#include "src/soft/segment.h"

#include "src/base/fork_guard.h"
#include "src/base/log.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace mesh::soft {

Segment::Segment(Segment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), fd_(std::move(other.fd_)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

Segment::~Segment() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<Segment> Segment::create(std::size_t bytes, Sharing sharing) {
  Segment segment;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (sharing == Sharing::Host) {
    segment.fd_ = UniqueFd(::memfd_create("mesh-soft", MFD_CLOEXEC));
    if (!segment.fd_.valid() || ::ftruncate(segment.fd_.get(), static_cast<off_t>(bytes)) != 0) {
      LOG_WARN("soft fabric: no memfd of {} bytes: {}", bytes, std::strerror(errno));
      return Errc::System;
    }
    fork_close_fd(segment.fd_.get());
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
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < static_cast<off_t>(bytes)) {
    LOG_WARN("soft fabric: a peer's memory has {} bytes, not {}", info.st_size, bytes);
    return Errc::Protocol;
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (data == MAP_FAILED) return Errc::System;
  Segment segment;
  segment.data_ = static_cast<std::byte*>(data);
  segment.bytes_ = bytes;
  return segment;
}

}  // namespace mesh::soft
