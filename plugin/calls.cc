#include "plugin/calls.h"

#include <array>

namespace mesh::plugin::calls {

// NOLINTBEGIN(readability-function-size): NCCL's signatures.

namespace {

// A non-null *offload asks for offload to the device. We have none, and null says so.
void decline(ncclNetDeviceHandle_t** offload) noexcept {
  if (offload != nullptr) *offload = nullptr;
}

SendArgs send_args(const void* data, std::size_t bytes, int tag, void* mhandle) noexcept {
  return {.data = data,
          .bytes = bytes,
          .tag = static_cast<std::uint32_t>(tag),
          .region = static_cast<Registration*>(mhandle)};
}

RecvArgs recv_args(void* data, std::size_t bytes, int tag, void* mhandle) noexcept {
  return {.data = data,
          .bytes = bytes,
          .tag = static_cast<std::uint32_t>(tag),
          .region = static_cast<Registration*>(mhandle)};
}

// These have the parameters of the irecv that calls them, so a single receive needs no stack frame.
[[gnu::noinline]] ncclResult_t irecv_group_v9(void* comm, int n, void** data, std::size_t* bytes,
                                              int* tags, void** mhandles, void** request) noexcept {
  *request = nullptr;
  if (n < 1 || n > static_cast<int>(kGroupMax)) return api::refuse_group(n);
  return api::irecv_group(comm,
                          {.count = static_cast<std::size_t>(n),
                           .data = data,
                           .bytes = bytes,
                           .tags = tags,
                           .regions = mhandles},
                          request);
}
[[gnu::noinline]] ncclResult_t irecv_group_v10(void* comm, int n, void** data, std::size_t* bytes,
                                               int* tags, void** mhandles, void**,
                                               void** request) noexcept {
  return irecv_group_v9(comm, n, data, bytes, tags, mhandles, request);
}
// Versions before v9 have sizes of type int.
[[gnu::noinline]] ncclResult_t irecv_group_v5(void* comm, int n, void** data, int* bytes, int* tags,
                                              void** mhandles, void** request) noexcept {
  std::array<std::size_t, kGroupMax> sizes{};
  for (int i = 0; i < n && i < static_cast<int>(kGroupMax); ++i) {
    if (bytes[i] < 0) {
      *request = nullptr;
      return api::refuse_size(bytes[i]);
    }
    sizes[static_cast<std::size_t>(i)] = static_cast<std::size_t>(bytes[i]);
  }
  return irecv_group_v9(comm, n, data, sizes.data(), tags, mhandles, request);
}

}  // namespace

ncclResult_t init_v5(ncclDebugLogger_t logger) noexcept { return api::init_process(logger); }

ncclResult_t init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) noexcept {
  const ncclResult_t result = api::init_process(logger);
  if (result == ncclSuccess) choose_calls(profiler);
  return result;
}

ncclResult_t init_v11(void** context, std::uint64_t comm_id, ncclNetCommConfig_v11_t* config,
                      ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) noexcept {
  const ncclResult_t result =
      api::init_communicator(logger, {.id = comm_id, .config = config}, context);
  if (result == ncclSuccess) choose_calls(profiler);
  return result;
}

ncclResult_t devices(int* count) noexcept { return api::devices(count); }

ncclResult_t listen_v5(int device, void* handle, void** listen_comm) noexcept {
  return api::listen_on_thread(device, handle, listen_comm);
}

ncclResult_t listen_v11(void* context, int device, void* handle, void** listen_comm) noexcept {
  return api::listen(context, device, handle, listen_comm);
}

ncclResult_t connect_v5(int device, void* handle, void** send_comm) noexcept {
  return api::connect_on_thread({.device = device}, handle, send_comm);
}

ncclResult_t connect_v7(int device, void* handle, void** send_comm,
                        ncclNetDeviceHandle_t** offload) noexcept {
  decline(offload);
  return api::connect_on_thread({.device = device}, handle, send_comm);
}

ncclResult_t connect_v10(int device, ncclNetCommConfig_v10_t* config, void* handle,
                         void** send_comm, ncclNetDeviceHandle_t** offload) noexcept {
  decline(offload);
  const int traffic_class = config == nullptr ? NCCL_NET_TRAFFIC_CLASS_UNDEF : config->trafficClass;
  return api::connect_on_thread({.device = device, .traffic_class = traffic_class}, handle,
                                send_comm);
}

ncclResult_t connect_v11(void* context, int device, void* handle, void** send_comm,
                         ncclNetDeviceHandle_t** offload) noexcept {
  decline(offload);
  return api::connect(context, device, handle, send_comm);
}

ncclResult_t accept_v5(void* listen_comm, void** recv_comm) noexcept {
  return api::accept(listen_comm, recv_comm);
}

ncclResult_t accept_v7(void* listen_comm, void** recv_comm,
                       ncclNetDeviceHandle_t** offload) noexcept {
  decline(offload);
  return api::accept(listen_comm, recv_comm);
}

ncclResult_t close_channel(void* comm) noexcept { return api::close_channel(comm); }

ncclResult_t close_listen(void* listen_comm) noexcept { return api::close_listen(listen_comm); }

ncclResult_t reg_mr_v5(void* comm, void* data, int bytes, int type, void** mhandle) noexcept {
  *mhandle = nullptr;
  if (bytes < 0) return api::refuse_size(bytes);
  return api::reg_mr(comm, {.data = data, .bytes = static_cast<std::size_t>(bytes), .type = type},
                     mhandle);
}

ncclResult_t reg_mr_v8(void* comm, void* data, std::size_t bytes, int type,
                       void** mhandle) noexcept {
  return api::reg_mr(comm, {.data = data, .bytes = bytes, .type = type}, mhandle);
}

ncclResult_t reg_mr_dmabuf_v6(void* comm, void* data, std::size_t bytes, int type,
                              std::uint64_t offset, int fd, void** mhandle) noexcept {
  return api::reg_mr_dmabuf(
      comm, {.data = data, .bytes = bytes, .type = type, .fd = fd, .offset = offset}, mhandle);
}

ncclResult_t dereg_mr(void* comm, void* mhandle) noexcept { return api::dereg_mr(comm, mhandle); }

[[gnu::flatten]] ncclResult_t isend_v5(void* comm, void* data, int bytes, int tag, void* mhandle,
                                       void** request) noexcept {
  *request = nullptr;
  if (bytes < 0) [[unlikely]]
    return api::refuse_size(bytes);
  return api::isend(comm, send_args(data, static_cast<std::size_t>(bytes), tag, mhandle), request);
}

[[gnu::flatten]] ncclResult_t isend_v9(void* comm, void* data, std::size_t bytes, int tag,
                                       void* mhandle, void** request) noexcept {
  return api::isend(comm, send_args(data, bytes, tag, mhandle), request);
}

[[gnu::flatten]] ncclResult_t isend_v10(void* comm, void* data, std::size_t bytes, int tag,
                                        void* mhandle, void*, void** request) noexcept {
  return api::isend(comm, send_args(data, bytes, tag, mhandle), request);
}

[[gnu::flatten]] ncclResult_t irecv_v5(void* comm, int n, void** data, int* bytes, int* tags,
                                       void** mhandles, void** request) noexcept {
  if (n != 1) [[unlikely]]
    return irecv_group_v5(comm, n, data, bytes, tags, mhandles, request);
  *request = nullptr;
  if (bytes[0] < 0) [[unlikely]]
    return api::refuse_size(bytes[0]);
  return api::irecv(
      comm, recv_args(data[0], static_cast<std::size_t>(bytes[0]), tags[0], mhandles[0]), request);
}

[[gnu::flatten]] ncclResult_t irecv_v9(void* comm, int n, void** data, std::size_t* bytes,
                                       int* tags, void** mhandles, void** request) noexcept {
  if (n != 1) [[unlikely]]
    return irecv_group_v9(comm, n, data, bytes, tags, mhandles, request);
  return api::irecv(comm, recv_args(data[0], bytes[0], tags[0], mhandles[0]), request);
}

[[gnu::flatten]] ncclResult_t irecv_v10(void* comm, int n, void** data, std::size_t* bytes,
                                        int* tags, void** mhandles, void** phandles,
                                        void** request) noexcept {
  if (n != 1) [[unlikely]]
    return irecv_group_v10(comm, n, data, bytes, tags, mhandles, phandles, request);
  return irecv_v9(comm, 1, data, bytes, tags, mhandles, request);
}

// NCCL's net transport leaves out members without bytes in the addresses, but not in the sizes, so
// the sizes are ignored. One flush of the last member in device memory is enough: all members lie
// in one GPU, and a read of it pushes whatever the same NIC has written there before.
ncclResult_t iflush(void* comm, int n, void** data, int*, void** mhandles,
                    void** request) noexcept {
  RecvArgs flushed;
  for (int i = n - 1; mhandles != nullptr && i >= 0; --i) {
    flushed = recv_args(data[i], 1, 0, mhandles[i]);
    if (needs_flush(flushed)) break;
  }
  return api::iflush(comm, flushed, request);
}

[[gnu::flatten]] ncclResult_t test(void* request, int* done, int* bytes) noexcept {
  return api::test(request, done, bytes);
}

ncclResult_t finalize(void* context) noexcept { return api::finalize(context); }

// NCCL gives hints about peers and flows, from two threads without a lock. We need none of them.
ncclResult_t set_net_attr(void*, ncclNetAttr_v11_t*) noexcept { return ncclSuccess; }

// NOLINTEND(readability-function-size)

}  // namespace mesh::plugin::calls
