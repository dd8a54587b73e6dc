#pragma once
// ncclNet version 11, NCCL 2.28.3 and later: one context per communicator, finalize, network
// attributes. Thread: as plugin/nccl/functions.h.

#include "plugin/nccl/net_v10.h"

using ncclNetVDeviceProps_v11_t = ncclNetVDeviceProps_v9_t;
using ncclNetCommConfig_v11_t = ncclNetCommConfig_v10_t;

struct ncclNetProperties_v11_t {
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
  ncclNetVDeviceProps_v11_t vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
  int maxMultiRequestSize;
};
static_assert(sizeof(ncclNetProperties_v11_t) == 112);
static_assert(offsetof(ncclNetProperties_v11_t, maxP2pBytes) == 88 &&
              offsetof(ncclNetProperties_v11_t, maxMultiRequestSize) == 104);

// Hints about one direction of a communicator's traffic; -1: not known.
struct ncclNetCommAttr_v11_t {
  std::int32_t maxConcurrentPeers;
  std::int32_t minConcurrentPeers;
  std::int32_t maxFlowsPerPeer;
  std::int32_t minFlowsPerPeer;
};

struct ncclNetAttr_v11_t {
  ncclNetCommAttr_v11_t sendCommAttr;
  ncclNetCommAttr_v11_t recvCommAttr;
  std::uint32_t op;  // bit masks
  std::uint32_t algo;
  std::uint32_t proto;
};
static_assert(sizeof(ncclNetAttr_v11_t) == 44 && offsetof(ncclNetAttr_v11_t, op) == 32);

namespace mesh::nccl {
using InitV11 = ncclResult_t (*)(void** context, std::uint64_t comm_id,
                                 ncclNetCommConfig_v11_t* config, ncclDebugLogger_t logger,
                                 ncclProfilerCallback_t profiler);
using SetNetAttr = ncclResult_t (*)(void* context, ncclNetAttr_v11_t* attributes);
}  // namespace mesh::nccl

struct ncclNet_v11_t {
  const char* name;
  mesh::nccl::InitV11 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v11_t> getProperties;
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
  mesh::nccl::MakeVDeviceV9 makeVDevice;
  mesh::nccl::Finalize finalize;  // never null: NCCL calls it without a check
  mesh::nccl::SetNetAttr setNetAttr;
};
static_assert(sizeof(ncclNet_v11_t) == 22 * sizeof(void*));
static_assert(offsetof(ncclNet_v11_t, finalize) == 20 * sizeof(void*));

// Not constant: its calls are chosen at init (plugin/calls.h).
extern "C" [[gnu::visibility("default")]] ncclNet_v11_t ncclNetPlugin_v11;
