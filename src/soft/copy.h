#pragma once
// How the NIC touches memory. Writes of up to 128 bytes to 8-byte-aligned targets, and the last 8
// bytes of any aligned write of whole words, are atomic words, ascending, each a release: polling
// on them with acquire is no data race. Thread: a NIC's turn.

#include "src/soft/ring.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace mesh::soft {

inline constexpr std::size_t kAtomicBytes = 128;  // what an engine polls on comes in one such write

// As a NIC's DMA engine writes and reads host memory.
void dma_store(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
void dma_load(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

// A piece of what scatter-gather elements name.
struct SgeRange {
  const RingSge* sge;
  std::uint32_t count;
  std::uint64_t offset;
  std::size_t bytes;
};

// Gathers the range into `to`. pid 0: from this process; else with process_vm_readv. False: the
// source cannot be read.
bool gather(std::byte* to, const SgeRange& range, pid_t pid) noexcept;
// Scatters `from` into the range of this process.
void scatter(const SgeRange& range, const std::byte* from) noexcept;

// Bytes between a position of a circular stream and its end or `bytes`, and the copies across that
// end.
void stream_put(std::byte* stream, std::uint64_t position, const std::byte* from,
                std::size_t bytes) noexcept;
void stream_get(std::byte* to, const std::byte* stream, std::uint64_t position,
                std::size_t bytes) noexcept;

// True: this process may read one word of that one with process_vm_readv, and it holds the expected
// value.
bool can_read_process(pid_t pid, std::uint64_t address, std::uint64_t expected) noexcept;

}  // namespace mesh::soft
