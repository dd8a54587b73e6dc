#pragma once
// NCCL's calls without a version. The tables of each version (tables.cc) add or drop parameters and
// call these. Comms and mhandles are the engine's own objects, so that the hot calls have nothing
// to look up. Nothing throws. In a forked child no call touches the engine: each returns
// ncclSystemError, but those that close or deregister a null handle succeed. Thread: as NCCL calls
// them; isend, irecv and test neither lock nor allocate. Bound: the engine's.

#include <mesh/channel.h>
#include <mesh/engine.h>

#include "plugin/nccl/versions.h"
#include "plugin/result.h"
#include "src/base/fork_guard.h"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace mesh::plugin::api {

// NCCL compares NCCL_NET with this name; NCCL 2.12 does so case-sensitively.
inline constexpr char kName[] = "Mesh";

// A range of the address space as regMr gets it.
struct Memory {
  void* data = nullptr;
  std::size_t bytes = 0;
  int type = NCCL_PTR_HOST;
  // For regMrDmaBuf: the buffer's descriptor, which NCCL closes right after, and the offset in it.
  int fd = -1;
  std::uint64_t offset = 0;
};

// v5..v10 call init once in a process. v11 and later call it once for each communicator, and pass
// *context to listen and connect.
ncclResult_t init_process(ncclDebugLogger_t logger) noexcept;
struct NamedCommunicator {
  std::uint64_t id = 0;  // alike on all of its processes; children of a split share their parent's
  const nccl::NewestCommConfig* config = nullptr;  // null: there is none
};
ncclResult_t init_communicator(ncclDebugLogger_t logger, const NamedCommunicator& of,
                               void** context) noexcept;
ncclResult_t finalize(void* context) noexcept;  // success if it is null

ncclResult_t devices(int* count) noexcept;
ncclResult_t properties(int device, nccl::NewestProperties* properties) noexcept;

// The comm stays null while there is no comm yet, and on every error.
ncclResult_t listen(void* context, int device, void* handle, void** listen_comm) noexcept;
ncclResult_t connect(void* context, int device, void* handle, void** send_comm) noexcept;

// The arguments of connect in v5..v10, which use the calling thread's context.
struct Route {
  int device = 0;
  int traffic_class = NCCL_NET_TRAFFIC_CLASS_UNDEF;
};
ncclResult_t listen_on_thread(int device, void* handle, void** listen_comm) noexcept;
ncclResult_t connect_on_thread(const Route& route, void* handle, void** send_comm) noexcept;

ncclResult_t accept(void* listen_comm, void** recv_comm) noexcept;
// These two and dereg_mr() return success if the comm is null.
ncclResult_t close_channel(void* comm) noexcept;
ncclResult_t close_listen(void* listen_comm) noexcept;

ncclResult_t reg_mr(void* comm, const Memory& memory, void** mhandle) noexcept;
ncclResult_t reg_mr_dmabuf(void* comm, const Memory& memory, void** mhandle) noexcept;
ncclResult_t dereg_mr(void* comm, void* mhandle) noexcept;

// Log and return the errors of data calls. They are kept out of line, because every message would
// pay for their stack frame.
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_comm(const char* call) noexcept;
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_group(int n) noexcept;
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_size(int bytes) noexcept;

// Stores the request. On entry *request may hold a stale pointer or the 0x1 that says "no
// completion wanted", so it is never read.
inline ncclResult_t started(const Result<Request*>& result, void** request) noexcept {
  *request = result.ok() ? result.value() : nullptr;
  return result.ok() ? ncclSuccess : to_result(result.code());
}

inline ncclResult_t isend(void* comm, const SendArgs& args, void** request) noexcept {
  if (comm == nullptr || in_forked_child()) [[unlikely]] {
    *request = nullptr;
    return refuse_comm("isend");
  }
  return started(mesh::isend(*static_cast<Channel*>(comm), args), request);
}

inline ncclResult_t irecv(void* comm, const RecvArgs& args, void** request) noexcept {
  if (comm == nullptr || in_forked_child()) [[unlikely]] {
    *request = nullptr;
    return refuse_comm("irecv");
  }
  return started(mesh::irecv(*static_cast<Channel*>(comm), args), request);
}

inline ncclResult_t irecv_group(void* comm, const RecvGroup& members, void** request) noexcept {
  if (comm == nullptr || in_forked_child()) {
    *request = nullptr;
    return refuse_comm("irecv");
  }
  return started(mesh::irecv_group(*static_cast<Channel*>(comm), members), request);
}

// Converts a size to NCCL's int. NCCL's messages have at most 1 GiB; a caller that sent more gets
// the largest int.
inline int as_int(std::size_t bytes) noexcept {
  if (bytes > std::numeric_limits<int>::max()) [[unlikely]]
    return std::numeric_limits<int>::max();
  return static_cast<int>(bytes);
}
inline ncclResult_t finished(std::size_t moved, int* done, int* bytes) noexcept {
  *done = 1;
  if (bytes == nullptr) return ncclSuccess;
  *bytes = as_int(moved);
  return ncclSuccess;
}

// Tests a request that is not finished, or a group, for which `bytes` gets one size per member. It
// is apart from test(), so that a test of a finished request needs no stack frame.
ncclResult_t test_open(void* request, int* done, int* bytes) noexcept;

inline ncclResult_t test(void* request, int* done, int* bytes) noexcept {
  if (request == nullptr || in_forked_child()) [[unlikely]] {
    *done = 0;
    return refuse_comm("test");
  }
  std::size_t moved = 0;
  if (!mesh::test_done(*static_cast<Request*>(request), &moved))
    return test_open(request, done, bytes);
  return finished(moved, done, bytes);
}

// Flushes a receive; host memory needs none. A null *request means "none needed", not "try again".
ncclResult_t iflush(void* comm, const RecvArgs& args, void** request) noexcept;

}  // namespace mesh::plugin::api
