// The tables of CollNet and tuner, and the door to them. A table that NCCL finds changes what NCCL
// does, also for jobs that want none of it: a tuner that is merely there skips a branch of NCCL's
// choice, a CollNet's properties override the net's. So the symbols are indirect functions: dlsym()
// calls the resolver and returns its answer, and that is null unless the environment asks for
// one-shot all-reduce.

#include "plugin/calls.h"
#include "plugin/collnet.h"
#include "plugin/nccl/collnet.h"
#include "plugin/nccl/tuner.h"
#include "plugin/properties.h"
#include "plugin/tuner.h"
#include "src/base/config.h"

#include <utility>

namespace {

namespace collnet = mesh::plugin::collnet;
namespace tuner = mesh::plugin::tuner;

// NOLINTBEGIN(readability-function-size): NCCL's signatures.

template <typename Properties>
ncclResult_t get_properties(int device, Properties* properties) noexcept {
  mesh::nccl::NewestProperties newest;
  const ncclResult_t result = collnet::properties(device, &newest);
  if (result == ncclSuccess) *properties = mesh::plugin::properties_as<Properties>(newest);
  return result;
}

ncclResult_t init_v11(void** context, std::uint64_t comm_id, ncclDebugLogger_t logger) noexcept {
  return collnet::init_communicator(comm_id, logger, context);
}
ncclResult_t listen_v5(int device, void* handle, void** listen_comm) noexcept {
  return collnet::listen(nullptr, device, handle, listen_comm);
}
ncclResult_t connect(void* handles[], int members, int rank, void* listen_comm,
                     void** coll_comm) noexcept {
  return collnet::connect({.handles = handles, .count = members, .rank = rank}, listen_comm,
                          coll_comm);
}
ncclResult_t reduce_support(int type, int operation, int* supported) noexcept {
  return collnet::reduce_support({type, operation}, supported);
}
ncclResult_t reg_mr(void* coll_comm, void*, std::size_t, int type, void** mhandle) noexcept {
  return collnet::reg_mr(coll_comm, type, mhandle);
}
ncclResult_t reg_mr_dmabuf(void* coll_comm, void*, std::size_t, int type, std::uint64_t, int,
                           void** mhandle) noexcept {
  return collnet::reg_mr(coll_comm, type, mhandle);
}
ncclResult_t dereg_mr(void*, void*) noexcept { return ncclSuccess; }
ncclResult_t iallreduce_v9(void* coll_comm, void* send, void* receive, std::size_t count, int type,
                           int operation, void*, void*, void** request) noexcept {
  return collnet::iallreduce(coll_comm, {send, receive, count}, {type, operation}, request);
}
ncclResult_t iallreduce_v8(void* coll_comm, void* send, void* receive, int count, int type,
                           int operation, void*, void*, void** request) noexcept {
  return collnet::iallreduce(coll_comm, {send, receive, static_cast<std::size_t>(count)},
                             {type, operation}, request);
}
// Results are written by the CPU, into host memory.
ncclResult_t iflush(void*, void*, int, void*, void** request) noexcept {
  *request = nullptr;
  return ncclSuccess;
}

ncclResult_t tuner_init_v3(std::size_t, std::size_t hosts, ncclDebugLogger_t,
                           void** context) noexcept {
  return tuner::init({.hosts = hosts}, context);
}
ncclResult_t tuner_init_v5(void** context, std::uint64_t comm_id, std::size_t, std::size_t hosts,
                           ncclDebugLogger_t, void*, void*) noexcept {
  return tuner::init({.id = &comm_id, .hosts = hosts}, context);
}
ncclResult_t tuner_init_v6(void** context, std::uint64_t comm_id, std::size_t, std::size_t hosts,
                           ncclDebugLogger_t, void*, void*) noexcept {
  return tuner::init({.id = &comm_id, .hosts = hosts, .cuts_chunks = true}, context);
}
ncclResult_t coll_info_v4(void* context, int function, std::size_t bytes, int, float** costs,
                          int algorithms, int protocols, int, int*) noexcept {
  return tuner::choose(context, {function, bytes},
                       {reinterpret_cast<float*>(costs), algorithms, protocols});
}
ncclResult_t coll_info_v3(void* context, int function, std::size_t bytes, int pipelined,
                          float** costs, int algorithms, int protocols, int* channels) noexcept {
  return coll_info_v4(context, function, bytes, pipelined, costs, algorithms, protocols, 0,
                      channels);
}
ncclResult_t chunk_size(void* context, int function, std::size_t bytes, int algorithm, int protocol,
                        int channels, std::size_t* chunk_bytes) noexcept {
  return tuner::cut(context, {function, bytes}, {algorithm, protocol, channels}, chunk_bytes);
}

// NOLINTEND(readability-function-size)

template <typename Table, typename Properties>
constexpr Table collnet_table() {
  Table table{};
  table.name = mesh::plugin::calls::kName;
  table.devices = collnet::devices;
  table.getProperties = get_properties<Properties>;
  table.connect = connect;
  table.reduceSupport = reduce_support;
  table.regMr = reg_mr;
  table.regMrDmaBuf = reg_mr_dmabuf;
  table.deregMr = dereg_mr;
  table.iflush = iflush;
  table.test = collnet::test;
  table.closeColl = collnet::close_coll;
  table.closeListen = collnet::close_listen;
  if constexpr (requires { table.finalize; }) {
    table.init = init_v11;
    table.listen = collnet::listen;
    table.finalize = collnet::finalize;
  } else {
    table.init = collnet::init_process;
    table.listen = listen_v5;
  }
  if constexpr (requires { table.iallreduce = iallreduce_v9; })
    table.iallreduce = iallreduce_v9;
  else
    table.iallreduce = iallreduce_v8;
  return table;
}

constinit const auto kCollNet8 = collnet_table<ncclCollNet_v8_t, ncclNetProperties_v8_t>();
constinit const auto kCollNet9 = collnet_table<ncclCollNet_v9_t, ncclNetProperties_v9_t>();
constinit const auto kCollNet10 = collnet_table<ncclCollNet_v10_t, ncclNetProperties_v10_t>();
constinit const auto kCollNet11 = collnet_table<ncclCollNet_v11_t, ncclNetProperties_v11_t>();
constinit const auto kCollNet12 = collnet_table<ncclCollNet_v12_t, ncclNetProperties_v12_t>();

constexpr char kTunerName[] = "Mesh one-shot";
const ncclTuner_v3_t kTuner3{kTunerName, tuner_init_v3, coll_info_v3, tuner::finalize};
const ncclTuner_v4_t kTuner4{kTunerName, tuner_init_v3, coll_info_v4, tuner::finalize};
const ncclTuner_v5_t kTuner5{kTunerName, tuner_init_v5, coll_info_v4, tuner::finalize};
const ncclTuner_v6_t kTuner6{kTunerName, tuner_init_v6, coll_info_v4, tuner::finalize, chunk_size};

using Found = void (*)();  // what dlsym() returns; NCCL takes it for data

template <typename Table>
Found if_asked(const Table& table) noexcept {
  if (!mesh::one_shot_asked()) return nullptr;
  return reinterpret_cast<Found>(reinterpret_cast<std::uintptr_t>(&table));
}

}  // namespace

extern "C" {

Found mesh_collnet_v8() noexcept { return if_asked(kCollNet8); }
Found mesh_collnet_v9() noexcept { return if_asked(kCollNet9); }
Found mesh_collnet_v10() noexcept { return if_asked(kCollNet10); }
Found mesh_collnet_v11() noexcept { return if_asked(kCollNet11); }
Found mesh_collnet_v12() noexcept { return if_asked(kCollNet12); }
Found mesh_tuner_v3() noexcept { return if_asked(kTuner3); }
Found mesh_tuner_v4() noexcept { return if_asked(kTuner4); }
Found mesh_tuner_v5() noexcept { return if_asked(kTuner5); }
Found mesh_tuner_v6() noexcept { return if_asked(kTuner6); }

// NOLINTBEGIN(readability-identifier-naming): NCCL's symbols.
#pragma GCC visibility push(default)
[[gnu::ifunc("mesh_collnet_v8")]] void ncclCollNetPlugin_v8();
[[gnu::ifunc("mesh_collnet_v9")]] void ncclCollNetPlugin_v9();
[[gnu::ifunc("mesh_collnet_v10")]] void ncclCollNetPlugin_v10();
[[gnu::ifunc("mesh_collnet_v11")]] void ncclCollNetPlugin_v11();
[[gnu::ifunc("mesh_collnet_v12")]] void ncclCollNetPlugin_v12();
[[gnu::ifunc("mesh_tuner_v3")]] void ncclTunerPlugin_v3();
[[gnu::ifunc("mesh_tuner_v4")]] void ncclTunerPlugin_v4();
[[gnu::ifunc("mesh_tuner_v5")]] void ncclTunerPlugin_v5();
[[gnu::ifunc("mesh_tuner_v6")]] void ncclTunerPlugin_v6();
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)

}  // extern "C"
