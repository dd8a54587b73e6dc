#pragma once
// One-shot all-reduce as NCCL's CollNet calls it, without a version (tables: collnet_tables.cc).
// connect() always succeeds, because NCCL hangs if it fails on some members only: a host that has
// no group answers with an empty seat, and while one exists reduce_support() says no, which NCCL
// gathers from all members before it uses any group. Nothing throws. In a forked child no call does
// anything. Thread: application (init, finalize, reduce_support), service thread (listen to
// close_coll, but for the next), progress thread (iallreduce, test). Bounds: connect() blocks for
// kOneShotConnectToGiveUpNs at most; the groups': plugin/oneshot/group.h.

#include "plugin/nccl/versions.h"
#include "plugin/oneshot/group.h"

#include <cstddef>
#include <cstdint>

namespace mesh::plugin::collnet {

// v8..v10 call init once in a process, and v11 and later once for each communicator.
ncclResult_t init_process(ncclDebugLogger_t logger) noexcept;
ncclResult_t init_communicator(std::uint64_t comm_id, ncclDebugLogger_t logger,
                               void** context) noexcept;
// Closes the seats that the communicator has left open.
ncclResult_t finalize(void* context) noexcept;

// One device, the net's first: other cables are behind the group, and hosts whose devices differ in
// number would fail NCCL's init.
ncclResult_t devices(int* count) noexcept;
ncclResult_t properties(int device, nccl::NewestProperties* properties) noexcept;

ncclResult_t listen(void* context, int device, void* handle, void** listen_comm) noexcept;
struct Members {
  void** handles = nullptr;  // one for each, by rank
  int count = 0;
  int rank = 0;
};
ncclResult_t connect(const Members& members, void* listen_comm, void** coll_comm) noexcept;
ncclResult_t close_listen(void* listen_comm) noexcept;
ncclResult_t close_coll(void* coll_comm) noexcept;

// Each number is NCCL's, and may be one that this version of the plugin does not know.
struct NcclReduction {
  int type = 0;
  int operation = 0;
};
ncclResult_t reduce_support(const NcclReduction& reduction, int* supported) noexcept;

// The group copies, so NCCL's memory needs no registration.
ncclResult_t reg_mr(void* coll_comm, int type, void** mhandle) noexcept;

struct Buffers {
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
};
ncclResult_t iallreduce(void* coll_comm, const Buffers& buffers, const NcclReduction& reduction,
                        void** request) noexcept;
ncclResult_t test(void* request, int* done, int* bytes) noexcept;

// Returns true if the communicator with this id has a CollNet of ours. A null id asks whether any
// caller of v8..v10 has one.
bool has_communicator(const std::uint64_t* comm_id) noexcept;

}  // namespace mesh::plugin::collnet
