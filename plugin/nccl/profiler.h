#pragma once
// The network events of NCCL's profiler: the arguments of the callback that init gets from v10 on.
// Written from the interface's facts (values, order, sizes). NCCL hands every event on to the
// profiler library, if one is loaded. Thread: any (values).

#include "plugin/nccl/types.h"

// Stop and update take the handle that start has filled in. Start leaves it null if the profiler
// does not want network events; a null handle must not be passed on.
enum ncclProfilerNetEvent : int {
  ncclProfilerNetEventStart = 0,
  ncclProfilerNetEventStop = 1,
  ncclProfilerNetEventUpdate = 2,
  ncclProfilerNetEventUpdateAndStop = 3,
};

inline constexpr std::uint8_t ncclProfileQp = 1;  // the descriptor's type

// The descriptor's opcodes, which are those of verbs: of a work request, of a receive's completion.
inline constexpr int kOpcodeWriteWithImmediate = 1;
inline constexpr int kOpcodeReceivedWithImmediate = 129;

// The event of one queue pair, version 1 of the InfiniBand transports' descriptor.
struct ncclProfilerNetIbDescr_v1_t {
  std::uint8_t type;
  struct {
    int device;
    std::uint64_t wr_id;
    int opcode;
    int qpNum;
    std::size_t length;
  } qp;
};
static_assert(sizeof(ncclProfilerNetIbDescr_v1_t) == 40);
static_assert(offsetof(ncclProfilerNetIbDescr_v1_t, qp) == 8 &&
              offsetof(ncclProfilerNetIbDescr_v1_t, qp.wr_id) == 16 &&
              offsetof(ncclProfilerNetIbDescr_v1_t, qp.qpNum) == 28 &&
              offsetof(ncclProfilerNetIbDescr_v1_t, qp.length) == 32);

namespace mesh::nccl {

// Names the descriptor: its transport (InfiniBand) above the lowest 16 bits, its version in them.
inline constexpr std::int64_t kIbEventsV1 = (std::int64_t{1} << 16) | 1;

}  // namespace mesh::nccl
