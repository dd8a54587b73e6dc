#include "perf/model/span_memory.h"

#include "src/base/unique_fd.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace mesh::model {

SpanMemory::SpanMemory(std::size_t bytes) {
  const std::size_t chunks = std::max<std::size_t>(1, (bytes + kChunkBytes - 1) / kChunkBytes);
  const UniqueFd memory(::memfd_create("mesh-model", MFD_CLOEXEC));
  if (!memory.valid() || ::ftruncate(memory.get(), static_cast<off_t>(kChunkBytes)) != 0) return;
  void* const range =
      ::mmap(nullptr, chunks * kChunkBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return;
  data_ = static_cast<std::byte*>(range);
  bytes_ = chunks * kChunkBytes;
  for (std::size_t i = 0; i < chunks; ++i) {
    void* const at = data_ + i * kChunkBytes;
    if (::mmap(at, kChunkBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory.get(), 0) ==
        at)
      continue;
    *this = SpanMemory();
    return;
  }
}

SpanMemory::~SpanMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

SpanMemory::SpanMemory(SpanMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SpanMemory& SpanMemory::operator=(SpanMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace mesh::model
