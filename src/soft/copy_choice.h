#pragma once
// Chooses the cheaper way to copy between processes on this machine: one copy by the kernel
// (process_vm_readv, which pins each page), or two of our own through cells. Kernels differ by a
// factor of five in the first. Thread: any. Bound: about a millisecond, once in a process.

namespace mesh::soft {

// True: a copy by the kernel takes longer than two of our own, so cells cost less processor time.
// The first call of a process measures it. False also if the memory for that cannot be had or read.
bool cells_are_cheaper() noexcept;

}  // namespace mesh::soft
