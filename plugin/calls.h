#pragma once
// The entries of the tables in NCCL's exact signatures. Each is named by the first version that has
// this form. Thread: as NCCL calls them (plugin/nccl/functions.h). Bound: none.

#include "plugin/api.h"
#include "plugin/properties.h"

namespace mesh::plugin::calls {

ncclResult_t init_v5(ncclDebugLogger_t logger) noexcept;
ncclResult_t init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) noexcept;
ncclResult_t init_v11(void** context, std::uint64_t comm_id, ncclNetCommConfig_v11_t* config,
                      ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) noexcept;
ncclResult_t devices(int* count) noexcept;

template <typename Properties>
ncclResult_t get_properties(int device, Properties* properties) noexcept {
  nccl::NewestProperties newest;
  const ncclResult_t result = api::properties(device, &newest);
  if (result == ncclSuccess) *properties = properties_as<Properties>(newest);
  return result;
}

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
ncclResult_t close_channel(void* comm) noexcept;
ncclResult_t close_listen(void* listen_comm) noexcept;

ncclResult_t reg_mr_v5(void* comm, void* data, int bytes, int type, void** mhandle) noexcept;
ncclResult_t reg_mr_v8(void* comm, void* data, std::size_t bytes, int type,
                       void** mhandle) noexcept;
ncclResult_t reg_mr_dmabuf_v6(void* comm, void* data, std::size_t bytes, int type,
                              std::uint64_t offset, int fd, void** mhandle) noexcept;
ncclResult_t dereg_mr(void* comm, void* mhandle) noexcept;

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
ncclResult_t iflush(void* comm, int n, void** data, int* bytes, void** mhandles,
                    void** request) noexcept;
ncclResult_t test(void* request, int* done, int* bytes) noexcept;

ncclResult_t finalize(void* context) noexcept;
ncclResult_t set_net_attr(void* context, ncclNetAttr_v11_t* attributes) noexcept;

}  // namespace mesh::plugin::calls

namespace mesh::plugin {

// Writes the calls of v10 and later into the tables after a successful init. If NCCL passes a
// callback and NCCL_PROFILER_PLUGIN names a profiler, they are those of calls_events.cc, which also
// tell the profiler what each request's queue pairs carry, and so lock and may allocate. Else they
// are the usual ones, because NCCL passes a callback and handles even without a profiler, and a job
// that nobody watches pays nothing. Does nothing while a comm is open.
void choose_calls(ncclProfilerCallback_t profiler) noexcept;

}  // namespace mesh::plugin
