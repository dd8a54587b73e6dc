#include "plugin/api.h"

#include "plugin/logger.h"
#include "plugin/properties.h"
#include "plugin/registry.h"
#include "src/base/log.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <span>

namespace mesh::plugin::api {

namespace {

// Wraps every call but the hot ones: it does nothing in a forked child, and lets no exception into
// NCCL's C frames.
template <typename Call>
ncclResult_t guarded(const char* name, Call&& call) noexcept {
  if (in_forked_child()) return refuse_comm(name);
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

ncclResult_t register_range(void* comm, const Memory& memory, void** mhandle) {
  const MemoryRange range{
      .data = memory.data,
      .bytes = memory.bytes,
      .type = memory.type == NCCL_PTR_HOST ? MemoryType::Host : MemoryType::Device,
      .fd = memory.fd,
      .offset = memory.offset};
  const Result<Registration*> region = register_memory(*static_cast<Channel*>(comm), range);
  if (region.ok()) *mhandle = region.value();
  return to_result(region.code());
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

}  // namespace

ncclResult_t refuse_comm(const char* call) noexcept {
  if (in_forked_child())
    return ncclSystemError;  // no line: the parent's logger may have a lock that stays locked here
  return guarded(call, [&] { return refuse(call, "the object is null"); });
}

ncclResult_t refuse_group(int n) noexcept {
  if (in_forked_child()) return ncclSystemError;
  LOG_WARN("irecv of a group of {} receives: 1 to {} are allowed", n, kGroupMax);
  return ncclInvalidUsage;
}

ncclResult_t refuse_size(int bytes) noexcept {
  if (in_forked_child()) return ncclSystemError;
  LOG_WARN("a size of {} bytes is negative", bytes);
  return ncclInvalidArgument;
}

namespace {
// Tests a request for which test() has returned InvalidArgument. It is a group, or is not open.
[[gnu::flatten, gnu::noinline]] ncclResult_t test_group_open(Request& request, int* done,
                                                             int* bytes) noexcept {
  const std::span<int> sizes(bytes, bytes == nullptr ? 0 : kGroupMax);
  const Result<std::size_t> members = mesh::test_group(request, sizes);
  if (!members.ok()) return to_result(members.code());
  *done = 1;
  return ncclSuccess;
}
}  // namespace

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

ncclResult_t init_process(ncclDebugLogger_t logger) noexcept {
  return guarded("init", [&] {
    use_logger(logger);
    return to_result(Registry::instance().hold_for_process().code());
  });
}

ncclResult_t init_communicator(ncclDebugLogger_t logger, const NamedCommunicator& of,
                               void** context) noexcept {
  *context = nullptr;
  return guarded("init", [&] {
    use_logger(logger);
    const int wanted =
        of.config == nullptr ? NCCL_NET_TRAFFIC_CLASS_UNDEF : of.config->trafficClass;
    const Result<Communicator*> opened = Registry::instance().open_communicator(
        {.traffic_class = usable_traffic_class(wanted), .communicator_id = of.id});
    if (!opened.ok()) return to_result(opened.code());
    opened.value()->config.trafficClass = wanted;
    opened.value()->engine_has.store(wanted, std::memory_order_relaxed);
    *context = opened.value();
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

ncclResult_t devices(int* count) noexcept {
  *count = 0;
  return guarded("devices", [&] {
    const Engine* const engine = Registry::instance().engine();
    if (engine == nullptr) return refuse("devices", "called before a successful init");
    *count = static_cast<int>(rails_of(*engine).size());
    return ncclSuccess;
  });
}

ncclResult_t properties(int device, nccl::NewestProperties* properties) noexcept {
  return guarded("getProperties", [&] {
    const Engine* const engine = engine_with(device, "getProperties");
    if (engine == nullptr) return ncclInvalidArgument;
    *properties = properties_of(rails_of(*engine)[static_cast<std::size_t>(device)], device);
    return ncclSuccess;
  });
}

ncclResult_t listen(void* context, int device, void* handle, void** listen_comm) noexcept {
  *listen_comm = nullptr;
  return guarded("listen", [&] {
    auto* const communicator = static_cast<Communicator*>(context);
    if (communicator == nullptr) return refuse_argument("listen");
    return listen_in(*communicator->context, device, handle, listen_comm);
  });
}

ncclResult_t connect(void* context, int device, void* handle, void** send_comm) noexcept {
  *send_comm = nullptr;
  return guarded("connect", [&] {
    auto* const communicator = static_cast<Communicator*>(context);
    if (communicator == nullptr) return refuse_argument("connect");
    take_traffic_class(*communicator);
    return connect_in(*communicator->context, device, handle, send_comm);
  });
}

ncclResult_t listen_on_thread(int device, void* handle, void** listen_comm) noexcept {
  *listen_comm = nullptr;
  return guarded("listen", [&] {
    const Result<Context*> context = thread_context(NCCL_NET_TRAFFIC_CLASS_UNDEF);
    return context.ok() ? listen_in(*context.value(), device, handle, listen_comm)
                        : to_result(context.code());
  });
}

ncclResult_t connect_on_thread(const Route& route, void* handle, void** send_comm) noexcept {
  *send_comm = nullptr;
  return guarded("connect", [&] {
    const Result<Context*> context = thread_context(route.traffic_class);
    return context.ok() ? connect_in(*context.value(), route.device, handle, send_comm)
                        : to_result(context.code());
  });
}

ncclResult_t accept(void* listen_comm, void** recv_comm) noexcept {
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

ncclResult_t iflush(void* comm, const RecvArgs& args, void** request) noexcept {
  *request = nullptr;
  if (in_forked_child()) return refuse_comm("iflush");
  if (comm == nullptr || args.region == nullptr) return ncclSuccess;
  return started(mesh::flush(*static_cast<Channel*>(comm), args), request);
}

ncclResult_t reg_mr(void* comm, const Memory& memory, void** mhandle) noexcept {
  *mhandle = nullptr;
  return guarded("regMr", [&] {
    if (comm == nullptr) return refuse("regMr", "the object is null");
    if (memory.type != NCCL_PTR_HOST && memory.type != NCCL_PTR_CUDA) {
      LOG_WARN("regMr: memory type {} is neither {} (host) nor {} (CUDA)", memory.type,
               NCCL_PTR_HOST, NCCL_PTR_CUDA);
      return ncclInvalidUsage;
    }
    return register_range(comm, memory, mhandle);
  });
}

ncclResult_t reg_mr_dmabuf(void* comm, const Memory& memory, void** mhandle) noexcept {
  *mhandle = nullptr;
  return guarded("regMrDmaBuf", [&] {
    if (comm == nullptr) return refuse("regMrDmaBuf", "the object is null");
    if (memory.type == NCCL_PTR_CUDA && memory.fd >= 0)
      return register_range(comm, memory, mhandle);
    LOG_WARN(
        "regMrDmaBuf: memory type {} and descriptor {} are no DMA buffer of a GPU's: wanted {} "
        "and 0 or more",
        memory.type, memory.fd, NCCL_PTR_CUDA);
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

}  // namespace mesh::plugin::api
