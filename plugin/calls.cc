#include "plugin/calls.h"

#include <mesh/channel.h>
#include <mesh/engine.h>

#include "plugin/logger.h"
#include "plugin/registry.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <span>

namespace mesh::plugin::calls {

// NOLINTBEGIN(readability-function-size): NCCL's signatures.

namespace {

// Wraps every call but the hot ones: it does nothing in a forked child, and lets no exception into
// NCCL's C frames. A forked child logs no line: the parent's logger may have a lock that stays
// locked there.
template <typename Call>
ncclResult_t guarded(const char* name, Call&& call) noexcept {
  if (in_forked_child()) return ncclSystemError;
  try {
    return call();
  } catch (const std::exception& error) {
    LOG_WARN("{} failed: {}", name, error.what());
    return ncclSystemError;
  }
}

ncclResult_t refuse(const char* name, const char* reason) {
  LOG_WARN("{}: {}", name, reason);
  return ncclInvalidUsage;
}

// Log and return the errors of data calls. They are kept out of line, because every message would
// pay for their stack frame.
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_comm(const char* call) noexcept {
  return guarded(call, [&] { return refuse(call, "the object is null"); });
}
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_group(int n) noexcept {
  if (in_forked_child()) return ncclSystemError;
  LOG_WARN("irecv of a group of {} receives: 1 to {} are allowed", n, kGroupMax);
  return ncclInvalidUsage;
}
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_size(int bytes) noexcept {
  if (in_forked_child()) return ncclSystemError;
  LOG_WARN("a size of {} bytes is negative", bytes);
  return ncclInvalidArgument;
}

std::span<const RailInfo> rails_of(const Engine& engine) {
  const std::span<const RailInfo> rails = engine.rails();
  return rails.first(std::min<std::size_t>(rails.size(), kDevicesMax));
}

// Returns the engine. Returns null and logs one line if the engine or the rail does not exist.
Engine* engine_with(int device, const char* name) {
  Engine* const engine = Registry::instance().engine();
  if (engine == nullptr) {
    LOG_WARN("{} before a successful init", name);
    return nullptr;
  }
  const std::size_t count = rails_of(*engine).size();
  if (device >= 0 && static_cast<std::size_t>(device) < count) return engine;
  LOG_WARN("{}: device {} is not in 0..{}", name, device, static_cast<std::ptrdiff_t>(count) - 1);
  return nullptr;
}

// Returns the communicator's traffic class as the engine has it, the byte of the IP header. NCCL
// leaves it to the network what a traffic class means.
int usable_traffic_class(int wanted) {
  if (wanted == NCCL_NET_TRAFFIC_CLASS_UNDEF) return kAuto;
  if (wanted >= 0 && wanted <= 255) return wanted;
  LOG_WARN("the communicator's traffic class {} is not in 0..255: the setting is used instead",
           wanted);
  return kAuto;
}

Result<Context*> thread_context(int traffic_class) {
  Engine* const engine = Registry::instance().engine();
  if (engine != nullptr)
    return Registry::instance().threads().of_this_thread(*engine,
                                                         usable_traffic_class(traffic_class));
  LOG_WARN("listen or connect before a successful init");
  return Errc::InvalidArgument;
}

ncclResult_t refuse_argument(const char* name) {
  LOG_WARN("{}: the communicator is null", name);
  return ncclInvalidArgument;
}

// Tells the engine the class if NCCL has written another one since the last connect.
void take_traffic_class(Communicator& communicator) {
  Engine* const engine = Registry::instance().engine();
  const int wanted = communicator.traffic_class();
  if (engine == nullptr ||
      communicator.engine_has.exchange(wanted, std::memory_order_relaxed) == wanted)
    return;
  engine->set_traffic_class(*communicator.context, usable_traffic_class(wanted));
}

// Notes an open comm, because NCCL's close names it by its address alone. If there is no memory for
// the note, closes the comm before NCCL gets it.
template <typename Close>
void note_open(const void* comm, Context* context, CommKind kind, Close&& close) {
  try {
    Registry::instance().comms().add(comm, context);
  } catch (...) {
    close();
    throw;
  }
  Registry::instance().threads().hold(context, kind);
}

ncclResult_t listen_in(Context& context, int device, void* handle, void** listen_comm) {
  Engine* const engine = engine_with(device, "listen");
  if (engine == nullptr) return ncclInvalidArgument;
  HandleBytes bytes{};
  const Result<Listener*> listener = engine->listen(context, device, bytes);
  if (!listener.ok()) return to_result(listener.code());
  note_open(listener.value(), &context, CommKind::Listener,
            [&] { engine->close_listener(listener.value()); });
  std::memcpy(handle, bytes.data(), bytes.size());
  *listen_comm = listener.value();
  return ncclSuccess;
}

ncclResult_t connect_in(Context& context, int device, void* handle, void** send_comm) {
  Engine* const engine = engine_with(device, "connect");
  if (engine == nullptr) return ncclInvalidArgument;
  HandleBytes bytes;
  std::memcpy(bytes.data(), handle, bytes.size());
  const Result<Channel*> channel = engine->connect(context, device, bytes);
  std::memcpy(handle, bytes.data(), bytes.size());  // keeps the stage for the next call
  if (!channel.ok()) return to_result(channel.code());
  note_open(channel.value(), &context, CommKind::Channel, [&] { mesh::close(channel.value()); });
  *send_comm = channel.value();
  return ncclSuccess;
}

// connect() of v5..v10, in the calling thread's context of that traffic class.
struct ThreadRoute {
  int device = 0;
  int traffic_class = NCCL_NET_TRAFFIC_CLASS_UNDEF;
};
ncclResult_t connect_on_thread(const ThreadRoute& route, void* handle, void** send_comm) noexcept {
  *send_comm = nullptr;
  return guarded("connect", [&] {
    const Result<Context*> context = thread_context(route.traffic_class);
    return context.ok() ? connect_in(*context.value(), route.device, handle, send_comm)
                        : to_result(context.code());
  });
}

// A non-null *offload asks for offload to the device. We have none, and null says so.
void decline(ncclNetDeviceHandle_t** offload) noexcept {
  if (offload != nullptr) *offload = nullptr;
}

ncclResult_t register_range(const char* name, void* comm, const MemoryRange& range,
                            void** mhandle) {
  if (Registry::instance().comms().context_of(comm) == nullptr) {
    LOG_WARN("{} of {} bytes: comm {} is not open: it was closed, or its communicator has ended",
             name, range.bytes, comm);
    return ncclInvalidUsage;
  }
  const Result<Registration*> region = register_memory(*static_cast<Channel*>(comm), range);
  if (region.ok()) *mhandle = region.value();
  return to_result(region.code());
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

inline ncclResult_t started(const Result<Request*>& result, void** request) noexcept {
  *request = result.ok() ? result.value() : nullptr;
  return result.ok() ? ncclSuccess : to_result(result.code());
}

inline ncclResult_t start_send(void* comm, const SendArgs& args, void** request) noexcept {
  if (comm == nullptr || in_forked_child()) [[unlikely]] {
    *request = nullptr;
    return refuse_comm("isend");
  }
  return started(mesh::isend(*static_cast<Channel*>(comm), args), request);
}

inline ncclResult_t start_receive(void* comm, const RecvArgs& args, void** request) noexcept {
  if (comm == nullptr || in_forked_child()) [[unlikely]] {
    *request = nullptr;
    return refuse_comm("irecv");
  }
  return started(mesh::irecv(*static_cast<Channel*>(comm), args), request);
}

// These have the parameters of the irecv that calls them, so a single receive needs no stack frame.
[[gnu::noinline]] ncclResult_t irecv_group_v9(void* comm, int n, void** data, std::size_t* bytes,
                                              int* tags, void** mhandles, void** request) noexcept {
  *request = nullptr;
  if (n < 1 || n > static_cast<int>(kGroupMax)) return refuse_group(n);
  if (comm == nullptr || in_forked_child()) return refuse_comm("irecv");
  const RecvGroup members{.count = static_cast<std::size_t>(n),
                          .data = data,
                          .bytes = bytes,
                          .tags = tags,
                          .regions = mhandles};
  return started(mesh::irecv_group(*static_cast<Channel*>(comm), members), request);
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
      return refuse_size(bytes[i]);
    }
    sizes[static_cast<std::size_t>(i)] = static_cast<std::size_t>(bytes[i]);
  }
  return irecv_group_v9(comm, n, data, sizes.data(), tags, mhandles, request);
}

// Tests a request for which test() has returned InvalidArgument. It is a group, or is not open.
[[gnu::flatten, gnu::noinline]] ncclResult_t test_group_open(Request& request, int* done,
                                                             int* bytes) noexcept {
  const std::span<int> sizes(bytes, bytes == nullptr ? 0 : kGroupMax);
  const Result<std::size_t> members = mesh::test_group(request, sizes);
  if (!members.ok()) return to_result(members.code());
  *done = 1;
  return ncclSuccess;
}

// Tests a request that is not finished, or a group, for which `bytes` gets one size per member. It
// is apart from test(), so that a test of a finished request needs no stack frame.
[[gnu::flatten, gnu::noinline]] ncclResult_t test_open(void* request, int* done,
                                                       int* bytes) noexcept {
  std::size_t moved = 0;
  const Status status = mesh::test(*static_cast<Request*>(request), &moved);
  if (status.ok()) return finished(moved, done, bytes);
  *done = 0;
  if (status.code() == Errc::InvalidArgument)
    return test_group_open(*static_cast<Request*>(request), done, bytes);
  return to_result(status.code());
}

}  // namespace

// ---- Init and its end, devices.

ncclResult_t init_v5(ncclDebugLogger_t logger) noexcept {
  return guarded("init",
                 [&] { return to_result(Registry::instance().hold_for_process(logger).code()); });
}

ncclResult_t init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) noexcept {
  const ncclResult_t result = init_v5(logger);
  if (result == ncclSuccess) choose_calls(profiler);
  return result;
}

ncclResult_t init_v11(void** context, std::uint64_t comm_id, ncclNetCommConfig_v11_t* config,
                      ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) noexcept {
  *context = nullptr;
  return guarded("init", [&] {
    use_logger(logger);  // for the line about a class
    const int wanted = config == nullptr ? NCCL_NET_TRAFFIC_CLASS_UNDEF : config->trafficClass;
    const Result<Communicator*> opened = Registry::instance().open_communicator(
        {.traffic_class = usable_traffic_class(wanted), .communicator_id = comm_id}, logger);
    if (!opened.ok()) return to_result(opened.code());
    opened.value()->config.trafficClass = wanted;
    opened.value()->engine_has.store(wanted, std::memory_order_relaxed);
    *context = opened.value();
    choose_calls(profiler);
    return ncclSuccess;
  });
}

ncclResult_t finalize(void* context) noexcept {
  if (context == nullptr) return ncclSuccess;
  return guarded("finalize", [&] {
    Registry::instance().close_communicator(static_cast<Communicator*>(context));
    return ncclSuccess;
  });
}

// NCCL gives hints about peers and flows, from two threads without a lock. We need none of them.
ncclResult_t set_net_attr(void*, ncclNetAttr_v11_t*) noexcept { return ncclSuccess; }

ncclResult_t devices(int* count) noexcept {
  *count = 0;
  return guarded("devices", [&] {
    const Engine* const engine = Registry::instance().engine();
    if (engine == nullptr) return refuse("devices", "called before a successful init");
    *count = static_cast<int>(rails_of(*engine).size());
    return ncclSuccess;
  });
}

ncclResult_t newest_properties(int device, nccl::NewestProperties* properties) noexcept {
  return guarded("getProperties", [&] {
    const Engine* const engine = engine_with(device, "getProperties");
    if (engine == nullptr) return ncclInvalidArgument;
    *properties = properties_of(rails_of(*engine)[static_cast<std::size_t>(device)], device);
    return ncclSuccess;
  });
}

// ---- Comms.

ncclResult_t listen_v5(int device, void* handle, void** listen_comm) noexcept {
  *listen_comm = nullptr;
  return guarded("listen", [&] {
    const Result<Context*> context = thread_context(NCCL_NET_TRAFFIC_CLASS_UNDEF);
    return context.ok() ? listen_in(*context.value(), device, handle, listen_comm)
                        : to_result(context.code());
  });
}

ncclResult_t listen_v11(void* context, int device, void* handle, void** listen_comm) noexcept {
  *listen_comm = nullptr;
  return guarded("listen", [&] {
    auto* const communicator = static_cast<Communicator*>(context);
    if (communicator == nullptr) return refuse_argument("listen");
    return listen_in(*communicator->context, device, handle, listen_comm);
  });
}

ncclResult_t connect_v5(int device, void* handle, void** send_comm) noexcept {
  return connect_on_thread({.device = device}, handle, send_comm);
}

ncclResult_t connect_v7(int device, void* handle, void** send_comm,
                        ncclNetDeviceHandle_t** offload) noexcept {
  decline(offload);
  return connect_on_thread({.device = device}, handle, send_comm);
}

ncclResult_t connect_v10(int device, ncclNetCommConfig_v10_t* config, void* handle,
                         void** send_comm, ncclNetDeviceHandle_t** offload) noexcept {
  decline(offload);
  const int traffic_class = config == nullptr ? NCCL_NET_TRAFFIC_CLASS_UNDEF : config->trafficClass;
  return connect_on_thread({.device = device, .traffic_class = traffic_class}, handle, send_comm);
}

ncclResult_t connect_v11(void* context, int device, void* handle, void** send_comm,
                         ncclNetDeviceHandle_t** offload) noexcept {
  decline(offload);
  *send_comm = nullptr;
  return guarded("connect", [&] {
    auto* const communicator = static_cast<Communicator*>(context);
    if (communicator == nullptr) return refuse_argument("connect");
    take_traffic_class(*communicator);
    return connect_in(*communicator->context, device, handle, send_comm);
  });
}

ncclResult_t accept_v5(void* listen_comm, void** recv_comm) noexcept {
  *recv_comm = nullptr;
  return guarded("accept", [&] {
    Engine* const engine = Registry::instance().engine();
    Context* const context = Registry::instance().comms().context_of(listen_comm);
    if (engine == nullptr || context == nullptr) return refuse("accept", "there is no listener");
    const Result<Channel*> channel = engine->accept(*static_cast<Listener*>(listen_comm));
    if (!channel.ok()) return to_result(channel.code());
    note_open(channel.value(), context, CommKind::Channel, [&] { mesh::close(channel.value()); });
    *recv_comm = channel.value();
    return ncclSuccess;
  });
}

ncclResult_t accept_v7(void* listen_comm, void** recv_comm,
                       ncclNetDeviceHandle_t** offload) noexcept {
  decline(offload);
  return accept_v5(listen_comm, recv_comm);
}

ncclResult_t close_channel(void* comm) noexcept {
  if (comm == nullptr) return ncclSuccess;
  return guarded("close", [&] {
    Engine* const engine = Registry::instance().engine();
    // The comm is taken before its close, because another thread may get the same address at once.
    const Context* const context = Registry::instance().comms().take(comm);
    if (engine == nullptr || context == nullptr)
      return ncclSuccess;  // it was closed with its communicator
    mesh::close(static_cast<Channel*>(comm));
    Registry::instance().threads().release(*engine, context, CommKind::Channel);
    return ncclSuccess;
  });
}

ncclResult_t close_listen(void* listen_comm) noexcept {
  if (listen_comm == nullptr) return ncclSuccess;
  return guarded("closeListen", [&] {
    Engine* const engine = Registry::instance().engine();
    const Context* const context = Registry::instance().comms().take(listen_comm);
    if (engine == nullptr || context == nullptr)
      return ncclSuccess;  // it was closed with its communicator
    engine->close_listener(static_cast<Listener*>(listen_comm));
    Registry::instance().threads().release(*engine, context, CommKind::Listener);
    return ncclSuccess;
  });
}

// ---- Memory.

ncclResult_t reg_mr_v5(void* comm, void* data, int bytes, int type, void** mhandle) noexcept {
  *mhandle = nullptr;
  if (bytes < 0) return refuse_size(bytes);
  return reg_mr_v8(comm, data, static_cast<std::size_t>(bytes), type, mhandle);
}

ncclResult_t reg_mr_v8(void* comm, void* data, std::size_t bytes, int type,
                       void** mhandle) noexcept {
  *mhandle = nullptr;
  return guarded("regMr", [&] {
    if (comm == nullptr) return refuse("regMr", "the object is null");
    if (type != NCCL_PTR_HOST && type != NCCL_PTR_CUDA) {
      LOG_WARN("regMr: memory type {} is neither {} (host) nor {} (CUDA)", type, NCCL_PTR_HOST,
               NCCL_PTR_CUDA);
      return ncclInvalidUsage;
    }
    const MemoryType known = type == NCCL_PTR_HOST ? MemoryType::Host : MemoryType::Device;
    return register_range("regMr", comm, {.data = data, .bytes = bytes, .type = known}, mhandle);
  });
}

// NCCL closes the buffer's descriptor right after.
ncclResult_t reg_mr_dmabuf_v6(void* comm, void* data, std::size_t bytes, int type,
                              std::uint64_t offset, int fd, void** mhandle) noexcept {
  *mhandle = nullptr;
  return guarded("regMrDmaBuf", [&] {
    if (comm == nullptr) return refuse("regMrDmaBuf", "the object is null");
    if (type == NCCL_PTR_CUDA && fd >= 0) {
      const MemoryRange range{
          .data = data, .bytes = bytes, .type = MemoryType::Device, .fd = fd, .offset = offset};
      return register_range("regMrDmaBuf", comm, range, mhandle);
    }
    LOG_WARN(
        "regMrDmaBuf: memory type {} and descriptor {} are no DMA buffer of a GPU's: wanted {} "
        "and 0 or more",
        type, fd, NCCL_PTR_CUDA);
    return ncclInvalidUsage;
  });
}

ncclResult_t dereg_mr(void* comm, void* mhandle) noexcept {
  if (comm == nullptr || mhandle == nullptr) return ncclSuccess;
  return guarded("deregMr", [&] {
    if (Registry::instance().comms().context_of(comm) == nullptr)
      return ncclSuccess;  // both went with their communicator's end
    deregister_memory(*static_cast<Channel*>(comm), static_cast<Registration*>(mhandle));
    return ncclSuccess;
  });
}

// ---- Messages.

[[gnu::flatten]] ncclResult_t isend_v5(void* comm, void* data, int bytes, int tag, void* mhandle,
                                       void** request) noexcept {
  *request = nullptr;
  if (bytes < 0) [[unlikely]]
    return refuse_size(bytes);
  return start_send(comm, send_args(data, static_cast<std::size_t>(bytes), tag, mhandle), request);
}

[[gnu::flatten]] ncclResult_t isend_v9(void* comm, void* data, std::size_t bytes, int tag,
                                       void* mhandle, void** request) noexcept {
  return start_send(comm, send_args(data, bytes, tag, mhandle), request);
}

[[gnu::flatten]] ncclResult_t isend_v10(void* comm, void* data, std::size_t bytes, int tag,
                                        void* mhandle, void*, void** request) noexcept {
  return start_send(comm, send_args(data, bytes, tag, mhandle), request);
}

[[gnu::flatten]] ncclResult_t irecv_v5(void* comm, int n, void** data, int* bytes, int* tags,
                                       void** mhandles, void** request) noexcept {
  if (n != 1) [[unlikely]]
    return irecv_group_v5(comm, n, data, bytes, tags, mhandles, request);
  *request = nullptr;
  if (bytes[0] < 0) [[unlikely]]
    return refuse_size(bytes[0]);
  return start_receive(
      comm, recv_args(data[0], static_cast<std::size_t>(bytes[0]), tags[0], mhandles[0]), request);
}

[[gnu::flatten]] ncclResult_t irecv_v9(void* comm, int n, void** data, std::size_t* bytes,
                                       int* tags, void** mhandles, void** request) noexcept {
  if (n != 1) [[unlikely]]
    return irecv_group_v9(comm, n, data, bytes, tags, mhandles, request);
  return start_receive(comm, recv_args(data[0], bytes[0], tags[0], mhandles[0]), request);
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
  *request = nullptr;
  RecvArgs flushed;
  for (int i = n - 1; mhandles != nullptr && i >= 0; --i) {
    flushed = recv_args(data[i], 1, 0, mhandles[i]);
    if (needs_flush(flushed)) break;
  }
  if (in_forked_child()) return ncclSystemError;
  if (comm == nullptr || flushed.region == nullptr) return ncclSuccess;
  return started(mesh::flush(*static_cast<Channel*>(comm), flushed), request);
}

[[gnu::flatten]] ncclResult_t test(void* request, int* done, int* bytes) noexcept {
  if (request == nullptr || in_forked_child()) [[unlikely]] {
    *done = 0;
    return refuse_comm("test");
  }
  std::size_t moved = 0;
  if (!mesh::test_done(*static_cast<Request*>(request), &moved))
    return test_open(request, done, bytes);
  return finished(moved, done, bytes);
}

// NOLINTEND(readability-function-size)

}  // namespace mesh::plugin::calls
