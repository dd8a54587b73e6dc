#include "tests/device_memory/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace mesh::testkit {
namespace {

std::byte* map(int file, std::size_t bytes, int protection) {
  void* const pages = ::mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bytes_ = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  file_ = UniqueFd(::memfd_create("device-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file_.valid() || ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) return;
  view_ = map(file_.get(), bytes_, PROT_READ | PROT_WRITE);
  if (view_ != nullptr) address_ = map(file_.get(), bytes_, PROT_NONE);
}

DeviceMemory::~DeviceMemory() { free(); }

UniqueFd DeviceMemory::export_buffer() const {
  return UniqueFd(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
}

void DeviceMemory::free() noexcept {
  if (address_ != nullptr) ::munmap(std::exchange(address_, nullptr), bytes_);
  if (view_ != nullptr) ::munmap(std::exchange(view_, nullptr), bytes_);
  file_.reset();
}

void DeviceMemory::swap(DeviceMemory& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(view_, other.view_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
}

}  // namespace mesh::testkit
