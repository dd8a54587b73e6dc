#pragma once
// The entries of NCCL's tables (tables.cc) in their exact signatures. Each is named by the first
// version that has this form. Comms and mhandles are the engine's own objects, so that the hot
// calls have nothing to look up. Nothing throws. In a forked child no call touches the engine: each
// returns ncclSystemError, but those that close or deregister a null handle succeed. Thread: as
// NCCL calls them (plugin/nccl/functions.h); isend, irecv and test neither lock nor allocate.
// Bound: the engine's.

#include "plugin/nccl/versions.h"
#include "plugin/properties.h"
#include "plugin/result.h"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace mesh::plugin::calls {

// NCCL compares NCCL_NET with this name; NCCL 2.12 does so case-sensitively.
inline constexpr char kName[] = "Mesh";

// v5..v10 call init once in a process. v11 and later call it once for each communicator, and pass
// *context to listen, connect and finalize. The id is alike on all processes of a communicator;
// children of a split share their parent's.
ncclResult_t init_v5(ncclDebugLogger_t logger) noexcept;
ncclResult_t init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) noexcept;
ncclResult_t init_v11(void** context, std::uint64_t comm_id, ncclNetCommConfig_v11_t* config,
                      ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) noexcept;
ncclResult_t devices(int* count) noexcept;

ncclResult_t newest_properties(int device, nccl::NewestProperties* properties) noexcept;
template <typename Properties>
ncclResult_t get_properties(int device, Properties* properties) noexcept {
  nccl::NewestProperties newest;
  const ncclResult_t result = newest_properties(device, &newest);
  if (result == ncclSuccess) *properties = properties_as<Properties>(newest);
  return result;
}

// The comm stays null while there is no comm yet, and on every error. Up to v10 listen and connect
// use the calling thread's context.
ncclResult_t listen_v5(int device, void* handle, void** listen_comm) noexcept;
ncclResult_t listen_v11(void* context, int device, void* handle, void** listen_comm) noexcept;
ncclResult_t connect_v5(int device, void* handle, void** send_comm) noexcept;
ncclResult_t connect_v7(int device, void* handle, void** send_comm,
                        ncclNetDeviceHandle_t** offload) noexcept;
ncclResult_t connect_v10(int device, ncclNetCommConfig_v10_t* config, void* handle,
                         void** send_comm, ncclNetDeviceHandle_t** offload) noexcept;
ncclResult_t connect_v11(void* context, int device, void* handle, void** send_comm,
                         ncclNetDeviceHandle_t** offload) noexcept;
ncclResult_t accept_v5(void* listen_comm, void** recv_comm) noexcept;
ncclResult_t accept_v7(void* listen_comm, void** recv_comm,
                       ncclNetDeviceHandle_t** offload) noexcept;
// These two and dereg_mr() return success if the comm is null, and finalize() if the context is.
ncclResult_t close_channel(void* comm) noexcept;
ncclResult_t close_listen(void* listen_comm) noexcept;

ncclResult_t reg_mr_v5(void* comm, void* data, int bytes, int type, void** mhandle) noexcept;
ncclResult_t reg_mr_v8(void* comm, void* data, std::size_t bytes, int type,
                       void** mhandle) noexcept;
ncclResult_t reg_mr_dmabuf_v6(void* comm, void* data, std::size_t bytes, int type,
                              std::uint64_t offset, int fd, void** mhandle) noexcept;
ncclResult_t dereg_mr(void* comm, void* mhandle) noexcept;

// On entry *request may hold a stale pointer or the 0x1 that says "no completion wanted", so no
// call reads it.
ncclResult_t isend_v5(void* comm, void* data, int bytes, int tag, void* mhandle,
                      void** request) noexcept;
ncclResult_t isend_v9(void* comm, void* data, std::size_t bytes, int tag, void* mhandle,
                      void** request) noexcept;
ncclResult_t isend_v10(void* comm, void* data, std::size_t bytes, int tag, void* mhandle,
                       void* phandle, void** request) noexcept;
ncclResult_t irecv_v5(void* comm, int n, void** data, int* bytes, int* tags, void** mhandles,
                      void** request) noexcept;
ncclResult_t irecv_v9(void* comm, int n, void** data, std::size_t* bytes, int* tags,
                      void** mhandles, void** request) noexcept;
ncclResult_t irecv_v10(void* comm, int n, void** data, std::size_t* bytes, int* tags,
                       void** mhandles, void** phandles, void** request) noexcept;
// Flushes a receive; host memory needs none. A null *request means "none needed", not "try again".
ncclResult_t iflush(void* comm, int n, void** data, int* bytes, void** mhandles,
                    void** request) noexcept;
ncclResult_t test(void* request, int* done, int* bytes) noexcept;

ncclResult_t finalize(void* context) noexcept;
ncclResult_t set_net_attr(void* context, ncclNetAttr_v11_t* attributes) noexcept;

// Converts a size to NCCL's int. NCCL's messages have at most 1 GiB; a caller that sent more gets
// the largest int.
inline int as_int(std::size_t bytes) noexcept {
  if (bytes > std::numeric_limits<int>::max()) [[unlikely]]
    return std::numeric_limits<int>::max();
  return static_cast<int>(bytes);
}
// Tells NCCL that a request is done; `bytes` may be null.
inline ncclResult_t finished(std::size_t moved, int* done, int* bytes) noexcept {
  *done = 1;
  if (bytes == nullptr) return ncclSuccess;
  *bytes = as_int(moved);
  return ncclSuccess;
}

}  // namespace mesh::plugin::calls

namespace mesh::plugin {

// Writes the calls of v10 and later into the tables after a successful init. If NCCL passes a
// callback and NCCL_PROFILER_PLUGIN names a profiler, they are those of calls_events.cc, which also
// tell the profiler what each request's queue pairs carry, and so lock and may allocate. Else they
// are the usual ones, because NCCL passes a callback and handles even without a profiler, and a job
// that nobody watches pays nothing. Does nothing while a comm is open.
void choose_calls(ncclProfilerCallback_t profiler) noexcept;

}  // namespace mesh::plugin
