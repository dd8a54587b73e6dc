#pragma once
// ncclNet version 9, NCCL 2.24.3 and later: wide message sizes, virtual NICs, transfer limits.
// Thread: as plugin/nccl/functions.h.

#include "plugin/nccl/functions.h"

inline constexpr int NCCL_NET_MAX_DEVS_PER_NIC_V9 = 4;  // unchanged up to v11

struct ncclNetVDeviceProps_v9_t {
  int ndevs;
  int devs[NCCL_NET_MAX_DEVS_PER_NIC_V9];
};

struct ncclNetProperties_v9_t {
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
  ncclNetVDeviceProps_v9_t vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
};
static_assert(sizeof(ncclNetProperties_v9_t) == 104);
static_assert(offsetof(ncclNetProperties_v9_t, forceFlush) == 32 &&
              offsetof(ncclNetProperties_v9_t, vProps) == 64);
static_assert(offsetof(ncclNetProperties_v9_t, maxP2pBytes) == 88);

namespace mesh::nccl {
using MakeVDeviceV9 = ncclResult_t (*)(int* device, ncclNetVDeviceProps_v9_t* members);
}

struct ncclNet_v9_t {
  const char* name;
  mesh::nccl::InitV5 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v9_t> getProperties;
  mesh::nccl::ListenV5 listen;
  mesh::nccl::ConnectV7 connect;
  mesh::nccl::AcceptV7 accept;
  mesh::nccl::RegMrV8 regMr;
  mesh::nccl::RegMrDmaBuf regMrDmaBuf;
  mesh::nccl::DeregMr deregMr;
  mesh::nccl::IsendV9 isend;
  mesh::nccl::IrecvV9 irecv;
  mesh::nccl::Iflush iflush;
  mesh::nccl::Test test;
  mesh::nccl::Close closeSend;
  mesh::nccl::Close closeRecv;
  mesh::nccl::Close closeListen;
  mesh::nccl::GetDeviceMr getDeviceMr;
  mesh::nccl::IrecvConsumed irecvConsumed;
  mesh::nccl::MakeVDeviceV9 makeVDevice;
};
static_assert(sizeof(ncclNet_v9_t) == 20 * sizeof(void*));

extern "C" [[gnu::visibility("default")]] const ncclNet_v9_t ncclNetPlugin_v9;
