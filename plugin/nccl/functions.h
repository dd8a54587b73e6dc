#pragma once
// The function signatures that several versions of the table share, named by the first version that
// has them, so that a version's table shows only what it changed. Parameter names are for the
// reader; order and types are the interface. Thread: as NCCL calls them (connections and
// registrations: service thread; data calls: progress thread).

#include "plugin/nccl/types.h"

namespace mesh::nccl {

using InitV5 = ncclResult_t (*)(ncclDebugLogger_t logger);
using Devices = ncclResult_t (*)(int* count);
template <typename Properties>
using GetProperties = ncclResult_t (*)(int device, Properties* properties);

// A null comm with ncclSuccess means "call again".
using ListenV5 = ncclResult_t (*)(int device, void* handle, void** listen_comm);
using ConnectV5 = ncclResult_t (*)(int device, void* handle, void** send_comm);
using ConnectV7 = ncclResult_t (*)(int device, void* handle, void** send_comm,
                                   ncclNetDeviceHandle_t** offload);
using AcceptV5 = ncclResult_t (*)(void* listen_comm, void** recv_comm);
using AcceptV7 = ncclResult_t (*)(void* listen_comm, void** recv_comm,
                                  ncclNetDeviceHandle_t** offload);
using ListenV11 = ncclResult_t (*)(void* context, int device, void* handle, void** listen_comm);
using ConnectV11 = ncclResult_t (*)(void* context, int device, void* handle, void** send_comm,
                                    ncclNetDeviceHandle_t** offload);
using Close = ncclResult_t (*)(void* comm);

using RegMrV5 = ncclResult_t (*)(void* comm, void* data, int bytes, int type, void** mhandle);
using RegMrV8 = ncclResult_t (*)(void* comm, void* data, std::size_t bytes, int type,
                                 void** mhandle);
using RegMrDmaBuf = ncclResult_t (*)(void* comm, void* data, std::size_t bytes, int type,
                                     std::uint64_t offset, int fd, void** mhandle);
using DeregMr = ncclResult_t (*)(void* comm, void* mhandle);

// A null *request with ncclSuccess means "call again with the same arguments" (flush: "none
// needed").
using IsendV5 = ncclResult_t (*)(void* send_comm, void* data, int bytes, int tag, void* mhandle,
                                 void** request);
using IrecvV5 = ncclResult_t (*)(void* recv_comm, int n, void** data, int* bytes, int* tags,
                                 void** mhandles, void** request);
using IsendV9 = ncclResult_t (*)(void* send_comm, void* data, std::size_t bytes, int tag,
                                 void* mhandle, void** request);
using IrecvV9 = ncclResult_t (*)(void* recv_comm, int n, void** data, std::size_t* bytes, int* tags,
                                 void** mhandles, void** request);
using IsendV10 = ncclResult_t (*)(void* send_comm, void* data, std::size_t bytes, int tag,
                                  void* mhandle, void* phandle, void** request);
using IrecvV10 = ncclResult_t (*)(void* recv_comm, int n, void** data, std::size_t* bytes,
                                  int* tags, void** mhandles, void** phandles, void** request);
using Iflush = ncclResult_t (*)(void* recv_comm, int n, void** data, int* bytes, void** mhandles,
                                void** request);
using Test = ncclResult_t (*)(void* request, int* done, int* bytes);

using GetDeviceMr = ncclResult_t (*)(void* comm, void* mhandle, void** device_mhandle);
using IrecvConsumed = ncclResult_t (*)(void* recv_comm, int n, void* request);
using Finalize = ncclResult_t (*)(void* context);

}  // namespace mesh::nccl
