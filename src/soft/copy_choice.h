#pragma once
// Which way of copying between processes costs less on this machine: one copy by the kernel
// (process_vm_readv, which pins each page) or two by hand through cells. Kernels differ by a factor
// of five in the first. Thread: any.

namespace mesh::soft {

// True: a copy by the kernel takes longer than two by hand, so cells cost less time of the
// processors. Measured by the first call of a process, in about a millisecond; false where memory
// for that cannot be had or be read.
bool cells_are_cheaper() noexcept;

}  // namespace mesh::soft
