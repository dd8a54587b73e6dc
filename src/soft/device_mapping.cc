#include "src/soft/device_mapping.h"

#include "src/base/unique_fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace mesh::soft {

namespace {

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

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

DeviceMapping& DeviceMapping::operator=(DeviceMapping&& other) noexcept {
  std::swap(pages_, other.pages_);
  std::swap(bytes_, other.bytes_);
  std::swap(lead_, other.lead_);
  return *this;
}

DeviceMapping::~DeviceMapping() {
  if (pages_ != nullptr) ::munmap(pages_, bytes_);
}

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
  *mapping = DeviceMapping(pages, lead + range.bytes, lead);
  return 0;
}

int DeviceMapping::of_address(void* address, std::size_t bytes, DeviceMapping* mapping) {
  if (may_touch(address)) return 0;
  const std::uint64_t lead = reinterpret_cast<std::uintptr_t>(address) % page_bytes();
  auto* const first = static_cast<std::byte*>(address) - lead;
  // For a shared mapping, an old size of 0 makes a second mapping of its pages (mremap(2)).
  void* const pages = ::mremap(first, 0, lead + bytes, MREMAP_MAYMOVE);
  if (pages == MAP_FAILED) return EFAULT;
  *mapping = DeviceMapping(pages, lead + bytes, lead);
  return ::mprotect(pages, lead + bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : EFAULT;
}

}  // namespace mesh::soft
