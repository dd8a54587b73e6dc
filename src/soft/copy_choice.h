#pragma once
// Chooses the cheaper way to copy between processes on this machine: one copy by the kernel
// (process_vm_readv, which pins each page), or two of our own through cells. Kernels differ by a
// factor of five in the first way. Thread: any. Bound: about a millisecond, once in a process.

namespace mesh::soft {

// Returns true if a copy by the kernel takes longer than two of our own, so that cells cost less
// processor time. The first call of a process measures it. Returns false also if the measurement
// cannot have or read its memory.
bool cells_are_cheaper() noexcept;

}  // namespace mesh::soft
