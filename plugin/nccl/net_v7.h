#pragma once
// ncclNet version 7, NCCL 2.19 and later: device offload (a handle in connect and accept, two calls
// at the end). Thread: as plugin/nccl/functions.h.

#include "plugin/nccl/functions.h"

struct ncclNetProperties_v7_t {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
};
static_assert(sizeof(ncclNetProperties_v7_t) == 56);
static_assert(offsetof(ncclNetProperties_v7_t, netDeviceType) == 48);

struct ncclNet_v7_t {
  const char* name;
  mesh::nccl::InitV5 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v7_t> getProperties;
  mesh::nccl::ListenV5 listen;
  mesh::nccl::ConnectV7 connect;
  mesh::nccl::AcceptV7 accept;
  mesh::nccl::RegMrV5 regMr;
  mesh::nccl::RegMrDmaBuf regMrDmaBuf;
  mesh::nccl::DeregMr deregMr;
  mesh::nccl::IsendV5 isend;
  mesh::nccl::IrecvV5 irecv;
  mesh::nccl::Iflush iflush;
  mesh::nccl::Test test;
  mesh::nccl::Close closeSend;
  mesh::nccl::Close closeRecv;
  mesh::nccl::Close closeListen;
  mesh::nccl::GetDeviceMr getDeviceMr;
  mesh::nccl::IrecvConsumed irecvConsumed;
};
static_assert(sizeof(ncclNet_v7_t) == 19 * sizeof(void*));
static_assert(offsetof(ncclNet_v7_t, getDeviceMr) == 17 * sizeof(void*));

extern "C" [[gnu::visibility("default")]] const ncclNet_v7_t ncclNetPlugin_v7;
