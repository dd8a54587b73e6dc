#include "tests/sim/memory.h"

#include "tests/sim/random.h"

namespace mesh::sim {
namespace {

constexpr std::size_t kPage = 4096;

std::byte* reserve(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

std::byte* make_source() {
  std::byte* const memory = reserve(kSourceBytes);
  Random random(1, 1);
  for (std::size_t at = 0; at < kSourceBytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(memory + at, &word, sizeof word);
  }
  ::mprotect(memory, kSourceBytes, PROT_READ);
  return memory;
}

}  // namespace

std::span<std::byte> source_memory() {
  static std::byte* const memory = make_source();
  return {memory, kSourceBytes};
}

Target::Target() : memory_(reserve(kTargetBytes)) {}
Target::~Target() { ::munmap(memory_, kTargetBytes); }

std::span<std::byte> Target::take(std::size_t bytes) {
  const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
  if (whole > kTargetBytes - used_) return {};
  const std::span<std::byte> piece(memory_ + used_, bytes);
  used_ += whole;
  std::fill(piece.begin(), piece.end(), kUntouched);
  return piece;
}

bool all_are(std::span<const std::byte> bytes, std::byte value) noexcept {
  if (bytes.empty()) return true;
  return bytes.front() == value &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace mesh::sim
