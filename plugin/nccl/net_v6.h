#pragma once
// ncclNet version 6, NCCL 2.13.4 and later: registration of DMA buffers.
// Thread: as plugin/nccl/functions.h.

#include "plugin/nccl/net_v5.h"

using ncclNetProperties_v6_t = ncclNetProperties_v5_t;

struct ncclNet_v6_t {
  const char* name;
  mesh::nccl::InitV5 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v6_t> getProperties;
  mesh::nccl::ListenV5 listen;
  mesh::nccl::ConnectV5 connect;
  mesh::nccl::AcceptV5 accept;
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
};
static_assert(sizeof(ncclNet_v6_t) == 17 * sizeof(void*));
static_assert(offsetof(ncclNet_v6_t, regMrDmaBuf) == 8 * sizeof(void*));

extern "C" [[gnu::visibility("default")]] const ncclNet_v6_t ncclNetPlugin_v6;
