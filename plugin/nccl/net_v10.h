#pragma once
// ncclNet version 10, NCCL 2.26.2 and later: profiler, traffic class at connect.
// Thread: as plugin/nccl/functions.h.

#include "plugin/nccl/net_v9.h"

using ncclNetVDeviceProps_v10_t = ncclNetVDeviceProps_v9_t;
using ncclNetProperties_v10_t = ncclNetProperties_v9_t;

struct ncclNetCommConfig_v10_t {
  int trafficClass;  // NCCL_NET_TRAFFIC_CLASS_UNDEF: not set
};
static_assert(sizeof(ncclNetCommConfig_v10_t) == 4);

namespace mesh::nccl {
using InitV10 = ncclResult_t (*)(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
using ConnectV10 = ncclResult_t (*)(int device, ncclNetCommConfig_v10_t* config, void* handle,
                                    void** send_comm, ncclNetDeviceHandle_t** offload);
}  // namespace mesh::nccl

struct ncclNet_v10_t {
  const char* name;
  mesh::nccl::InitV10 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v10_t> getProperties;
  mesh::nccl::ListenV5 listen;
  mesh::nccl::ConnectV10 connect;
  mesh::nccl::AcceptV7 accept;
  mesh::nccl::RegMrV8 regMr;
  mesh::nccl::RegMrDmaBuf regMrDmaBuf;
  mesh::nccl::DeregMr deregMr;
  mesh::nccl::IsendV10 isend;
  mesh::nccl::IrecvV10 irecv;
  mesh::nccl::Iflush iflush;
  mesh::nccl::Test test;
  mesh::nccl::Close closeSend;
  mesh::nccl::Close closeRecv;
  mesh::nccl::Close closeListen;
  mesh::nccl::GetDeviceMr getDeviceMr;
  mesh::nccl::IrecvConsumed irecvConsumed;
  mesh::nccl::MakeVDeviceV9 makeVDevice;
};
static_assert(sizeof(ncclNet_v10_t) == 20 * sizeof(void*));

// Not constant: its calls are chosen at init (plugin/calls.h).
extern "C" [[gnu::visibility("default")]] ncclNet_v10_t ncclNetPlugin_v10;
