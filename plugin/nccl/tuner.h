#pragma once
// The tables of NCCL's tuner, versions 3 to 6: it may change what NCCL's model says about each
// algorithm. NCCL looks for one in the library of its net if it has no other. Thread: the
// application's.

#include "plugin/nccl/types.h"

inline constexpr int NCCL_FUNC_ALL_REDUCE = 4;
inline constexpr int NCCL_ALGO_COLLNET_DIRECT = 2;
inline constexpr int NCCL_ALGO_COLLNET_CHAIN = 3;
inline constexpr int NCCL_PROTO_SIMPLE = 2;
inline constexpr float NCCL_ALGO_PROTO_IGNORE = -1.0f;

namespace mesh::nccl {

using TunerInitV3 = ncclResult_t (*)(std::size_t ranks, std::size_t nodes, ncclDebugLogger_t logger,
                                     void** context);
// The last two arguments are of no use to one-shot all-reduce.
using TunerInitV5 = ncclResult_t (*)(void** context, std::uint64_t comm_id, std::size_t ranks,
                                     std::size_t nodes, ncclDebugLogger_t logger, void* nvl_domains,
                                     void* constants);
// costs: declared float**, and really one row of `protocols` floats for each algorithm.
using CollInfoV3 = ncclResult_t (*)(void* context, int function, std::size_t bytes, int pipelined,
                                    float** costs, int algorithms, int protocols, int* channels);
using CollInfoV4 = ncclResult_t (*)(void* context, int function, std::size_t bytes, int pipelined,
                                    float** costs, int algorithms, int protocols, int registered,
                                    int* channels);
using ChunkSize = ncclResult_t (*)(void* context, int function, std::size_t bytes, int algorithm,
                                   int protocol, int channels, std::size_t* chunk_bytes);

}  // namespace mesh::nccl

struct ncclTuner_v3_t {
  const char* name;
  mesh::nccl::TunerInitV3 init;
  mesh::nccl::CollInfoV3 getCollInfo;
  ncclResult_t (*destroy)(void* context);
};
struct ncclTuner_v4_t {
  const char* name;
  mesh::nccl::TunerInitV3 init;
  mesh::nccl::CollInfoV4 getCollInfo;
  ncclResult_t (*destroy)(void* context);
};
struct ncclTuner_v5_t {
  const char* name;
  mesh::nccl::TunerInitV5 init;
  mesh::nccl::CollInfoV4 getCollInfo;
  ncclResult_t (*finalize)(void* context);
};
struct ncclTuner_v6_t {
  const char* name;
  mesh::nccl::TunerInitV5 init;
  mesh::nccl::CollInfoV4 getCollInfo;
  ncclResult_t (*finalize)(void* context);
  mesh::nccl::ChunkSize getChunkSize;
};
static_assert(sizeof(ncclTuner_v6_t) == 5 * sizeof(void*));
