#pragma once
// ncclNet version 12, NCCL 2.30.3 and later: wider virtual NICs, rail and plane numbers.
// Thread: as plugin/nccl/functions.h.

#include "plugin/nccl/net_v11.h"

inline constexpr int NCCL_NET_MAX_DEVS_PER_NIC_V12 = 8;

struct ncclNetVDeviceProps_v12_t {
  int ndevs;
  int devs[NCCL_NET_MAX_DEVS_PER_NIC_V12];
};

using ncclNetCommConfig_v12_t = ncclNetCommConfig_v10_t;
using ncclNetAttr_v12_t = ncclNetAttr_v11_t;

struct ncclNetProperties_v12_t {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  ncclNetVDeviceProps_v12_t vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
  int maxMultiRequestSize;
  std::int16_t railId;
  std::int16_t planeId;
};
static_assert(sizeof(ncclNetProperties_v12_t) == 128);
static_assert(offsetof(ncclNetProperties_v12_t, vProps) == 64 &&
              offsetof(ncclNetProperties_v12_t, maxP2pBytes) == 104);
static_assert(offsetof(ncclNetProperties_v12_t, railId) == 124 &&
              offsetof(ncclNetProperties_v12_t, planeId) == 126);

namespace mesh::nccl {
using MakeVDeviceV12 = ncclResult_t (*)(int* device, ncclNetVDeviceProps_v12_t* members);
}

struct ncclNet_v12_t {
  const char* name;
  mesh::nccl::InitV11 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v12_t> getProperties;
  mesh::nccl::ListenV11 listen;
  mesh::nccl::ConnectV11 connect;
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
  mesh::nccl::MakeVDeviceV12 makeVDevice;
  mesh::nccl::Finalize finalize;
  mesh::nccl::SetNetAttr setNetAttr;
};
static_assert(sizeof(ncclNet_v12_t) == 22 * sizeof(void*));

// Not constant: its calls are chosen at init (plugin/calls.h).
extern "C" [[gnu::visibility("default")]] ncclNet_v12_t ncclNetPlugin_v12;
