#pragma once
// The tables of ncclCollNet, versions 8 to 12: a network that reduces. NCCL looks for the newest in
// the library of its net, whose version need not be equal. Data types and operations are NCCL's
// enums, as int. The calls for all-gather and reduce-scatter may be null; their form is not
// declared here. Thread: as NCCL calls them (plugin/collnet.h).

#include "plugin/nccl/net_v10.h"
#include "plugin/nccl/net_v11.h"
#include "plugin/nccl/net_v12.h"
#include "plugin/nccl/net_v8.h"
#include "plugin/nccl/net_v9.h"

namespace mesh::nccl {

using CollInitV8 = ncclResult_t (*)(ncclDebugLogger_t logger);
using CollInitV11 = ncclResult_t (*)(void** context, std::uint64_t comm_id,
                                     ncclDebugLogger_t logger);
// handles: one for each member, in the order of ranks.
using CollConnect = ncclResult_t (*)(void* handles[], int members, int rank, void* listen_comm,
                                     void** coll_comm);
using ReduceSupport = ncclResult_t (*)(int type, int operation, int* supported);
// A null *request with ncclSuccess means "call again with the same arguments".
using IallreduceV8 = ncclResult_t (*)(void* coll_comm, void* send, void* receive, int count,
                                      int type, int operation, void* send_mhandle,
                                      void* receive_mhandle, void** request);
using IallreduceV9 = ncclResult_t (*)(void* coll_comm, void* send, void* receive, std::size_t count,
                                      int type, int operation, void* send_mhandle,
                                      void* receive_mhandle, void** request);
using CollFlush = ncclResult_t (*)(void* coll_comm, void* data, int bytes, void* mhandle,
                                   void** request);
using NotOffered = void (*)();

}  // namespace mesh::nccl

struct ncclCollNet_v8_t {
  const char* name;
  mesh::nccl::CollInitV8 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<ncclNetProperties_v8_t> getProperties;
  mesh::nccl::ListenV5 listen;
  mesh::nccl::CollConnect connect;
  mesh::nccl::ReduceSupport reduceSupport;
  mesh::nccl::RegMrV8 regMr;
  mesh::nccl::RegMrDmaBuf regMrDmaBuf;
  mesh::nccl::DeregMr deregMr;
  mesh::nccl::IallreduceV8 iallreduce;
  mesh::nccl::NotOffered iallgather;
  mesh::nccl::NotOffered ireducescatter;
  mesh::nccl::CollFlush iflush;
  mesh::nccl::Test test;
  mesh::nccl::Close closeColl;
  mesh::nccl::Close closeListen;
};
static_assert(sizeof(ncclCollNet_v8_t) == 17 * sizeof(void*));

// Versions 9 and 10 differ in what they include only.
template <typename Properties>
struct ncclCollNet_v9_as {
  const char* name;
  mesh::nccl::CollInitV8 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<Properties> getProperties;
  mesh::nccl::ListenV5 listen;
  mesh::nccl::CollConnect connect;
  mesh::nccl::ReduceSupport reduceSupport;
  mesh::nccl::RegMrV8 regMr;
  mesh::nccl::RegMrDmaBuf regMrDmaBuf;
  mesh::nccl::DeregMr deregMr;
  mesh::nccl::IallreduceV9 iallreduce;
  mesh::nccl::NotOffered iallgather;
  mesh::nccl::NotOffered ireducescatter;
  mesh::nccl::CollFlush iflush;
  mesh::nccl::Test test;
  mesh::nccl::Close closeColl;
  mesh::nccl::Close closeListen;
  mesh::nccl::NotOffered makeVDevice;
};
using ncclCollNet_v9_t = ncclCollNet_v9_as<ncclNetProperties_v9_t>;
using ncclCollNet_v10_t = ncclCollNet_v9_as<ncclNetProperties_v10_t>;
static_assert(sizeof(ncclCollNet_v10_t) == 18 * sizeof(void*));

// Versions 11 and 12 have a context for each communicator.
template <typename Properties>
struct ncclCollNet_v11_as {
  const char* name;
  mesh::nccl::CollInitV11 init;
  mesh::nccl::Devices devices;
  mesh::nccl::GetProperties<Properties> getProperties;
  mesh::nccl::ListenV11 listen;
  mesh::nccl::CollConnect connect;
  mesh::nccl::ReduceSupport reduceSupport;
  mesh::nccl::RegMrV8 regMr;
  mesh::nccl::RegMrDmaBuf regMrDmaBuf;
  mesh::nccl::DeregMr deregMr;
  mesh::nccl::IallreduceV9 iallreduce;
  mesh::nccl::NotOffered iallgather;
  mesh::nccl::NotOffered ireducescatter;
  mesh::nccl::CollFlush iflush;
  mesh::nccl::Test test;
  mesh::nccl::Close closeColl;
  mesh::nccl::Close closeListen;
  mesh::nccl::NotOffered makeVDevice;
  mesh::nccl::Finalize finalize;
};
using ncclCollNet_v11_t = ncclCollNet_v11_as<ncclNetProperties_v11_t>;
using ncclCollNet_v12_t = ncclCollNet_v11_as<ncclNetProperties_v12_t>;
static_assert(sizeof(ncclCollNet_v12_t) == 19 * sizeof(void*));
static_assert(offsetof(ncclCollNet_v12_t, iallreduce) == 10 * sizeof(void*) &&
              offsetof(ncclCollNet_v12_t, finalize) == 18 * sizeof(void*));
