#pragma once
// ncclNet version 8, NCCL 2.20.3 and later: regIsGlobal (in the middle of the properties), wide
// registration sizes. Thread: as plugin/nccl/functions.h.

#include "plugin/nccl/functions.h"

struct ncclNetProperties_v8_t {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
};
static_assert(sizeof(ncclNetProperties_v8_t) == 64);
static_assert(offsetof(ncclNetProperties_v8_t, regIsGlobal) == 28 &&
              offsetof(ncclNetProperties_v8_t, netDeviceType) == 52);

struct ncclNet_v8_t {
  const char* name;
  mesh::nccl::InitV5 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v8_t> getProperties;
  mesh::nccl::ListenV5 listen;
  mesh::nccl::ConnectV7 connect;
  mesh::nccl::AcceptV7 accept;
  mesh::nccl::RegMrV8 regMr;
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
static_assert(sizeof(ncclNet_v8_t) == 19 * sizeof(void*));

extern "C" [[gnu::visibility("default")]] const ncclNet_v8_t ncclNetPlugin_v8;
