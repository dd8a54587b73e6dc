#include "src/soft/copy.h"

#include "src/base/check.h"
#include "src/base/log.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

namespace mesh::soft {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

bool aligned(const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p) % kWord == 0; }

void store_words(std::byte* to, const std::byte* from, std::size_t words) {
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t value;
    std::memcpy(&value, from + i * kWord, kWord);
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to + i * kWord))
        .store(value, std::memory_order_release);
  }
}

std::byte* pointer(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

// Calls use(address, bytes) for each contiguous piece of the range.
template <typename Use>
void for_pieces(const SgeRange& range, Use use) {
  std::uint64_t skip = range.offset;
  std::size_t left = range.bytes;
  for (std::uint32_t i = 0; i < range.count && left > 0; ++i) {
    const RingSge& sge = range.sge[i];
    if (skip >= sge.bytes) {
      skip -= sge.bytes;
      continue;
    }
    const std::size_t piece = std::min<std::size_t>(sge.bytes - skip, left);
    use(pointer(sge.address + skip), piece);
    left -= piece;
    skip = 0;
  }
}

bool read_process(pid_t pid, const SgeRange& range, const std::array<iovec, 2>& local) {
  std::array<iovec, kSgesMax> remote{};
  std::size_t count = 0;
  for_pieces(range, [&](std::byte* from, std::size_t bytes) { remote[count++] = {from, bytes}; });
  const std::size_t locals = local[1].iov_len == 0 ? 1 : 2;
  return ::process_vm_readv(pid, local.data(), locals, remote.data(), count, 0) ==
         static_cast<ssize_t>(range.bytes);
}

}  // namespace

void dma_store(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  if (!aligned(to)) {
    std::memcpy(to, from, bytes);
    return;
  }
  if (bytes <= kAtomicBytes) {
    const std::size_t words = bytes / kWord;
    store_words(to, from, words);
    if (bytes % kWord != 0) std::memcpy(to + words * kWord, from + words * kWord, bytes % kWord);
    return;
  }
  const std::size_t last = bytes % kWord == 0 ? kWord : 0;
  std::memcpy(to, from, bytes - last);
  if (last != 0) store_words(to + bytes - kWord, from + bytes - kWord, 1);
}

void dma_load(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::size_t done = 0;
  if (aligned(from) && bytes <= kAtomicBytes) {
    for (; done + kWord <= bytes; done += kWord) {
      auto* word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from + done));
      const std::uint64_t value =
          std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
      std::memcpy(to + done, &value, kWord);
    }
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}

bool gather(std::byte* to, const SgeRange& range, pid_t pid) noexcept {
  std::array<std::byte, kAtomicBytes> small;
  if (pid != 0) {
    if (range.bytes <= kAtomicBytes) {
      if (!read_process(pid, range, {iovec{small.data(), range.bytes}, iovec{}})) return false;
      dma_store(to, small.data(), range.bytes);
      return true;
    }
    const std::size_t last = aligned(to) && range.bytes % kWord == 0 ? kWord : 0;
    if (!read_process(pid, range, {iovec{to, range.bytes - last}, iovec{small.data(), last}}))
      return false;
    dma_store(to + range.bytes - last, small.data(), last);
    return true;
  }
  if (range.bytes <= kAtomicBytes) {
    std::size_t at = 0;
    for_pieces(range, [&](const std::byte* from, std::size_t bytes) {
      std::memcpy(small.data() + at, from, bytes);
      at += bytes;
    });
    dma_store(to, small.data(), range.bytes);
    return true;
  }
  for_pieces(range, [&](const std::byte* from, std::size_t bytes) {
    dma_store(to, from, bytes);
    to += bytes;
  });
  return true;
}

void scatter(const SgeRange& range, const std::byte* from) noexcept {
  for_pieces(range, [&](std::byte* to, std::size_t bytes) {
    dma_store(to, from, bytes);
    from += bytes;
  });
}

void stream_get(std::byte* to, const std::byte* stream, std::uint64_t position,
                std::size_t bytes) noexcept {
  DCHECK(bytes <= kStreamBytes);
  const std::size_t at = position % kStreamBytes;
  const std::size_t first = std::min<std::size_t>(bytes, kStreamBytes - at);
  std::memcpy(to, stream + at, first);
  std::memcpy(to + first, stream, bytes - first);
}

bool can_read_process(pid_t pid, std::uint64_t address, std::uint64_t expected) noexcept {
  std::uint64_t value = 0;
  const iovec local{&value, sizeof value};
  const iovec remote{pointer(address), sizeof value};
  return ::process_vm_readv(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof value) &&
         value == expected;
}

// ---- The choice between process_vm_readv and cells.

namespace {

constexpr std::size_t kRegion = 1 << 20;  // more than a core's own cache keeps
constexpr std::size_t kPiece = 1 << 16;   // what a turn of the NIC copies at once
constexpr int kRounds = 3;  // the fastest counts, because others may use the processor meanwhile

bool copy_by_kernel(std::byte* to, std::byte* from) noexcept {
  const iovec local{to, kPiece};
  const iovec remote{from, kPiece};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(kPiece);
}

bool copy_by_hand(std::byte* to, std::byte* from) noexcept {
  std::memcpy(to, from, kPiece);
  asm volatile("" ::"r"(to) : "memory");  // the compiler must not leave the copy out
  return true;
}

// Returns the time of the fastest round over the region, in nanoseconds, or 0 if it cannot be done
// here.
template <typename Copy>
double fastest(std::byte* to, std::byte* from, Copy copy) noexcept {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t at = 0; at < kRegion; at += kPiece) {
      if (!copy(to + at, from + at)) return 0;
    }
    const double took =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    best = round == 0 ? took : std::min(best, took);
  }
  return best;
}

bool measure() noexcept {
  void* memory = ::mmap(nullptr, 2 * kRegion, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* const from = static_cast<std::byte*>(memory);
  const double by_kernel = fastest(from + kRegion, from, copy_by_kernel);
  const double by_hand = fastest(from + kRegion, from, copy_by_hand);
  ::munmap(memory, 2 * kRegion);
  const bool cells = by_kernel > 2 * by_hand;
  LOG_DETAIL("soft fabric: the kernel copies {:.1f} GB/s between processes, memcpy {:.1f}: {}",
             kRegion / std::max(by_kernel, 1.0), kRegion / std::max(by_hand, 1.0),
             cells ? "cells, two copies" : "process_vm_readv, one copy");
  return cells;
}

}  // namespace

bool cells_are_cheaper() noexcept {
  static const bool cheaper = measure();
  return cheaper;
}

}  // namespace mesh::soft
