#include "perf/driver/buffer.h"

#include <sys/mman.h>

namespace mesh::driver {
namespace {
constexpr std::size_t kPage = 4096;
MemoryKind g_memory = MemoryKind::Host;
}  // namespace

void use_memory(MemoryKind kind) noexcept { g_memory = kind; }
MemoryKind memory_in_use() noexcept { return g_memory; }

Buffer::Buffer(std::size_t bytes, MemoryKind kind)
    : bytes_(bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage) {
  if (kind == MemoryKind::Device) {
    device_ = testkit::DeviceMemory(bytes_);
    data_ = reinterpret_cast<char*>(device_.device_view());
    return;
  }
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    bytes_ = 0;
  } else {
    data_ = static_cast<char*>(memory);
  }
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr && !is_device()) ::munmap(data_, bytes_);
}

bool Buffer::make_read_only() noexcept { return ::mprotect(data_, bytes_, PROT_READ) == 0; }

}  // namespace mesh::driver
