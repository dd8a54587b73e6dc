#include "engine/data/dma_buffer.h"

#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/pages.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace mesh::engine {

verbs::DmaBufferRange range_in_buffer(const MemoryRange& range, std::uint64_t page) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(range.data);
  const std::uint64_t lead = address % page;
  const std::uint64_t before = range.offset % page == lead ? 0 : lead;
  return {.fd = range.fd,
          .offset = range.offset,
          .bytes = range.bytes + before,
          .address = address - before};
}

namespace {
std::string why_not_kept(int error) {
  if (error == EBADF) return "it is not open";
  rlimit limit{};
  if (error != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::strerror(error);
  return fmt::format(
      "{}: the process may have {} (RLIMIT_NOFILE, ulimit -n), and each region of GPU memory keeps "
      "one",
      std::strerror(error), limit.rlim_cur);
}
}  // namespace

Status keep_buffer(const MemoryRange& range, Registration& entry) {
  entry.buffer = UniqueFd();
  entry.buffer_range = {};
  if (range.fd < 0) return {};
  entry.buffer = UniqueFd(::fcntl(range.fd, F_DUPFD_CLOEXEC, 0));
  if (!entry.buffer.valid()) {
    const int error = errno;
    LOG_WARN("DMA buffer of {} bytes at {:#x}: descriptor {}: {}", entry.bytes, entry.address,
             range.fd, why_not_kept(error));
    return error == EBADF ? Errc::InvalidArgument : Errc::System;
  }
  fork_close_fd(entry.buffer.get());
  entry.buffer_range = range_in_buffer(range, page_bytes());
  entry.buffer_range.fd = entry.buffer.get();
  const off_t size = ::lseek(entry.buffer.get(), 0, SEEK_END);  // works for a DMA buffer too
  std::uint64_t end = 0;
  const bool fits =
      !__builtin_add_overflow(entry.buffer_range.offset, entry.buffer_range.bytes, &end) &&
      (size < 0 || end <= static_cast<std::uint64_t>(size));
  if (fits) return {};
  LOG_WARN("DMA buffer for {:#x}: {} bytes from offset {} are not in its 0..{} (descriptor {})",
           entry.address, entry.buffer_range.bytes, entry.buffer_range.offset, size, range.fd);
  return Errc::InvalidArgument;
}

bool takes_device_memory(const Registration& entry, const RailInfo& rail) {
  if (entry.buffer.valid() ? rail.dma_buffers : rail.peer_memory) return true;
  LOG_WARN("GPU memory of {} bytes at {:#x}: {} takes {}; the lines at init say why", entry.bytes,
           entry.address, rail.name,
           entry.buffer.valid() ? "no DMA buffers" : "no addresses of GPUs (peer memory)");
  return false;
}

void tell_device_refusal(const Registration& entry, const std::string& rail, int error) {
  if (!entry.buffer.valid()) {
    LOG_WARN("cannot register GPU memory of {} bytes at {:#x} on {}: {}", entry.bytes,
             entry.address, rail, std::strerror(error));
    return;
  }
  const verbs::DmaBufferRange& range = entry.buffer_range;
  LOG_WARN("cannot register {} bytes at {:#x}, offset {} of a DMA buffer, on {}: {}{}", range.bytes,
           range.address, range.offset, rail, std::strerror(error),
           error == EINVAL ? " (the descriptor is no DMA buffer, or too short)" : "");
}

}  // namespace mesh::engine
