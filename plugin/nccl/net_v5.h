#pragma once
// ncclNet version 5, NCCL 2.12.7 to 2.25. Beside it NCCL 2.12 looks only for a version that blocks.
// Thread: as plugin/nccl/functions.h.

#include "plugin/nccl/functions.h"

struct ncclNetProperties_v5_t {
  char* name;  // also the key of the NIC in NCCL's topology: unique per device
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int speed;  // Mb/s
  int port;
  float latency;  // us
  int maxComms;
  int maxRecvs;
};
static_assert(sizeof(ncclNetProperties_v5_t) == 48);
static_assert(offsetof(ncclNetProperties_v5_t, ptrSupport) == 24 &&
              offsetof(ncclNetProperties_v5_t, latency) == 36);

struct ncclNet_v5_t {
  const char* name;
  mesh::nccl::InitV5 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v5_t> getProperties;
  mesh::nccl::ListenV5 listen;
  mesh::nccl::ConnectV5 connect;
  mesh::nccl::AcceptV5 accept;
  mesh::nccl::RegMrV5 regMr;
  mesh::nccl::DeregMr deregMr;
  mesh::nccl::IsendV5 isend;
  mesh::nccl::IrecvV5 irecv;
  mesh::nccl::Iflush iflush;
  mesh::nccl::Test test;
  mesh::nccl::Close closeSend;
  mesh::nccl::Close closeRecv;
  mesh::nccl::Close closeListen;
};
static_assert(sizeof(ncclNet_v5_t) == 16 * sizeof(void*));

extern "C" [[gnu::visibility("default")]] const ncclNet_v5_t ncclNetPlugin_v5;
