#pragma once
// How the NIC touches memory. A write of up to 128 bytes to a target aligned to 8 is made of atomic
// words in ascending order, each a release. So are the last 8 bytes of any aligned write of whole
// words. Polling on them with acquire is no data race. Thread: a NIC's turn. Bound: the bytes
// given.

#include "src/soft/ring.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace mesh::soft {

inline constexpr std::size_t kAtomicBytes = 128;  // whatever an engine polls on comes in one write

// Write and read host memory as a NIC's DMA engine does.
void dma_store(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
void dma_load(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

// A range of the memory that scatter-gather elements name.
struct SgeRange {
  const RingSge* sge;
  std::uint32_t count;
  std::uint64_t offset;
  std::size_t bytes;
};

// Gathers the range into `to`, from this process if pid is 0, otherwise with process_vm_readv.
// Returns false if the source cannot be read.
bool gather(std::byte* to, const SgeRange& range, pid_t pid) noexcept;
// Scatters `from` into the range, which is in this process.
void scatter(const SgeRange& range, const std::byte* from) noexcept;

// Copies out of a circular stream at a position, across its end where needed.
void stream_get(std::byte* to, const std::byte* stream, std::uint64_t position,
                std::size_t bytes) noexcept;

// Returns true if this process can read a word of the process `pid` with process_vm_readv, and the
// word has the expected value.
bool can_read_process(pid_t pid, std::uint64_t address, std::uint64_t expected) noexcept;

// Returns true if one copy by the kernel (process_vm_readv, which pins each page) takes longer than
// two of our own through cells, so that cells cost less processor time; kernels differ by a factor
// of five. The first call of a process measures it, which takes about a millisecond. Returns false
// also if the measurement cannot have or read its memory. Thread: any.
bool cells_are_cheaper() noexcept;

}  // namespace mesh::soft
