#pragma once
// NCCL's calls without a version: the tables add or drop parameters and call these. Comms and
// mhandles are the engine's own objects, so that the hot calls have nothing to look up. Nothing
// throws. In a forked child every call answers ncclSystemError and touches nothing. Thread: as NCCL
// calls them; isend, irecv and test neither lock nor allocate. Bound: the engine's.

#include <mesh/channel.h>
#include <mesh/engine.h>

#include "plugin/nccl/versions.h"
#include "plugin/result.h"
#include "src/base/fork_guard.h"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace mesh::plugin::api {

// NCCL_NET is compared with this name; NCCL 2.12 does so case-sensitively.
inline constexpr char kName[] = "Mesh";

// A range of the address space as regMr gets it.
struct Memory {
  void* data = nullptr;
  std::size_t bytes = 0;
  int type = NCCL_PTR_HOST;
  // regMrDmaBuf: what shows the memory, which NCCL closes right after.
  int fd = -1;
  std::uint64_t offset = 0;
};

// v5..v10: one init in a process. v11 and later: one for each communicator, and *context is passed
// to listen and connect.
ncclResult_t init_process(ncclDebugLogger_t logger) noexcept;
ncclResult_t init_communicator(ncclDebugLogger_t logger, const nccl::NewestCommConfig* config,
                               void** context) noexcept;
ncclResult_t finalize(void* context) noexcept;  // success if it is null

ncclResult_t devices(int* count) noexcept;
ncclResult_t properties(int device, nccl::NewestProperties* properties) noexcept;

// The comm stays null while there is none yet, and on every error.
ncclResult_t listen(void* context, int device, void* handle, void** listen_comm) noexcept;
ncclResult_t connect(void* context, int device, void* handle, void** send_comm) noexcept;

// For v5..v10, which use the calling thread's context.
struct Route {
  int device = 0;
  int traffic_class = NCCL_NET_TRAFFIC_CLASS_UNDEF;
};
ncclResult_t listen_on_thread(int device, void* handle, void** listen_comm) noexcept;
ncclResult_t connect_on_thread(const Route& route, void* handle, void** send_comm) noexcept;

ncclResult_t accept(void* listen_comm, void** recv_comm) noexcept;
// From here on null means success.
ncclResult_t close_channel(void* comm) noexcept;
ncclResult_t close_listen(void* listen_comm) noexcept;

ncclResult_t reg_mr(void* comm, const Memory& memory, void** mhandle) noexcept;
ncclResult_t reg_mr_dmabuf(void* comm, const Memory& memory, void** mhandle) noexcept;
ncclResult_t dereg_mr(void* comm, void* mhandle) noexcept;

// Errors on the way of a message. They are kept out of line, because every message would pay for
// their stack frame.
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_comm(const char* call) noexcept;
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_group(int n) noexcept;
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_size(int bytes) noexcept;

// *request may have a stale pointer or the 0x1 that says "no completion wanted", so it is only
// written.
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

// NCCL's sizes are int and its messages at most 1 GiB. A caller that sent more gets the largest
// int.
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

// It is apart from test(), so that a test of a finished request needs no stack frame. Also of a
// group, of which bytes gets as many sizes as it has members.
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

// Host memory needs no flush. Null means "none needed" to NCCL, never "try again".
ncclResult_t iflush(void* comm, const RecvArgs& args, void** request) noexcept;

}  // namespace mesh::plugin::api
