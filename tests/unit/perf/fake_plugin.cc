// A loop-back ncclNet v12 in one process, only to test the driver. It copies with memcpy when a
// send meets its receive, and makes mistakes on demand that the driver must find.
#include "tests/unit/perf/fake_plugin.h"
#include "plugin/nccl/net_v12.h"
#include "tests/standard.h"

namespace {

using mesh::fake::Fault;

struct Comm;

struct Request {
  Comm* comm = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;
  std::size_t moved = 0;
  bool done = false;
};

struct Wire {
  std::deque<Request*> sends, receives;
};

struct Comm {
  std::shared_ptr<Wire> wire;
  int open = 0;
};

struct Listener {
  std::uint64_t id = 0;
  std::deque<std::shared_ptr<Wire>> waiting;
};

constexpr int kRequestsMax = 32;

struct World {
  std::mutex mutex;
  std::map<std::uint64_t, Listener*> listeners;
  std::uint64_t next_id = 1;
  std::deque<Request> requests;  // kept until unload, so that addresses stay valid
  Fault fault = Fault::None;
};

World& world() {
  static World instance;
  return instance;
}

void plant(char* data, std::size_t bytes) {
  if (world().fault == Fault::ShiftByOne && bytes >= 2) std::memmove(data + 1, data, bytes - 1);
}

void match(Wire& wire) {
  while (!wire.sends.empty() && !wire.receives.empty()) {
    Request& send = *wire.sends.front();
    Request& receive = *wire.receives.front();
    wire.sends.pop_front();
    wire.receives.pop_front();
    const std::size_t bytes = std::min(send.bytes, receive.bytes);
    if (bytes != 0) std::memcpy(receive.data, send.data, bytes);
    plant(static_cast<char*>(receive.data), bytes);
    send.moved = receive.moved = world().fault == Fault::Truncate ? bytes / 2 : bytes;
    send.done = true;
    receive.done = world().fault != Fault::DropCompletion;
  }
}

// NOLINTBEGIN(readability-function-size): NCCL's signatures.
ncclResult_t init(void** context, std::uint64_t, ncclNetCommConfig_v12_t*, ncclDebugLogger_t logger,
                  ncclProfilerCallback_t) {
  *context = new int(0);
  logger(NCCL_LOG_INFO, NCCL_INIT | NCCL_NET, __FILE__, __LINE__, "fake plugin %d ready", 12);
  return ncclSuccess;
}

ncclResult_t finalize(void* context) {
  delete static_cast<int*>(context);
  return ncclSuccess;
}

ncclResult_t devices(int* count) {
  *count = 1;
  return ncclSuccess;
}

ncclResult_t properties(int, ncclNetProperties_v12_t* out) {
  static char name[] = "fake0";
  *out = ncclNetProperties_v12_t{};
  out->name = name;
  out->ptrSupport = NCCL_PTR_HOST;
  out->maxRecvs = 1;
  out->vProps.ndevs = 1;
  out->maxP2pBytes = NCCL_MAX_NET_SIZE_BYTES;
  return ncclSuccess;
}

ncclResult_t listen(void*, int, void* handle, void** listen_comm) {
  const std::lock_guard<std::mutex> lock(world().mutex);
  auto* listener = new Listener;
  listener->id = world().next_id++;
  world().listeners[listener->id] = listener;
  std::memcpy(handle, &listener->id, sizeof(listener->id));
  *listen_comm = listener;
  return ncclSuccess;
}

// The second word of the handle is the stage. The first three calls only advance it, as in a plugin
// that needs several calls.
ncclResult_t connect(void*, int, void* handle, void** send_comm, ncclNetDeviceHandle_t**) {
  const std::lock_guard<std::mutex> lock(world().mutex);
  std::uint64_t words[2];
  std::memcpy(words, handle, sizeof(words));
  *send_comm = nullptr;
  const auto found = world().listeners.find(words[0]);
  if (found == world().listeners.end()) return ncclInvalidArgument;
  if (words[1]++ < 3) {
    std::memcpy(handle, words, sizeof(words));
    return ncclSuccess;
  }
  auto* comm = new Comm{std::make_shared<Wire>()};
  found->second->waiting.push_back(comm->wire);
  *send_comm = comm;
  return ncclSuccess;
}

ncclResult_t accept(void* listen_comm, void** recv_comm, ncclNetDeviceHandle_t**) {
  const std::lock_guard<std::mutex> lock(world().mutex);
  auto* listener = static_cast<Listener*>(listen_comm);
  *recv_comm = nullptr;
  if (listener->waiting.empty()) return ncclSuccess;
  *recv_comm = new Comm{listener->waiting.front()};
  listener->waiting.pop_front();
  return ncclSuccess;
}

ncclResult_t register_memory(void*, void* data, std::size_t, int, void** mhandle) {
  *mhandle = data;
  return ncclSuccess;
}

ncclResult_t deregister_memory(void*, void*) { return ncclSuccess; }

ncclResult_t begin(Comm& comm, std::deque<Request*>& queue, const Request& wanted, void** request) {
  *request = nullptr;
  if (comm.open == kRequestsMax) return ncclSuccess;
  Request* started = &world().requests.emplace_back(wanted);
  ++comm.open;
  queue.push_back(started);
  match(*comm.wire);
  *request = started;
  return ncclSuccess;
}

ncclResult_t isend(void* comm, void* data, std::size_t bytes, int, void*, void*, void** request) {
  const std::lock_guard<std::mutex> lock(world().mutex);
  auto& side = *static_cast<Comm*>(comm);
  return begin(side, side.wire->sends, {&side, data, bytes}, request);
}

ncclResult_t irecv(void* comm, int, void** data, std::size_t* bytes, int*, void**, void**,
                   void** request) {
  const std::lock_guard<std::mutex> lock(world().mutex);
  auto& side = *static_cast<Comm*>(comm);
  return begin(side, side.wire->receives, {&side, data[0], bytes[0]}, request);
}

ncclResult_t flush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return ncclSuccess;
}

// NOLINTEND(readability-function-size)

ncclResult_t test(void* request, int* done, int* bytes) {
  const std::lock_guard<std::mutex> lock(world().mutex);
  if (world().fault == Fault::FailTest) return ncclRemoteError;
  auto* asked = static_cast<Request*>(request);
  *done = asked->done ? 1 : 0;
  if (!asked->done) return ncclSuccess;
  if (bytes != nullptr) *bytes = static_cast<int>(asked->moved);
  --asked->comm->open;
  return ncclSuccess;
}

ncclResult_t close_comm(void* comm) {
  delete static_cast<Comm*>(comm);
  return ncclSuccess;
}

ncclResult_t close_listen(void* comm) {
  const std::lock_guard<std::mutex> lock(world().mutex);
  auto* listener = static_cast<Listener*>(comm);
  if (listener != nullptr) world().listeners.erase(listener->id);
  delete listener;
  return ncclSuccess;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void fake_plugin_plant(int fault) {
  world().fault = static_cast<Fault>(fault);
}

__attribute__((visibility("default"))) extern ncclNet_v12_t ncclNetPlugin_v12;
ncclNet_v12_t ncclNetPlugin_v12 = {
    .name = "Fake",
    .init = init,
    .devices = devices,
    .getProperties = properties,
    .listen = listen,
    .connect = connect,
    .accept = accept,
    .regMr = register_memory,
    .regMrDmaBuf = nullptr,
    .deregMr = deregister_memory,
    .isend = isend,
    .irecv = irecv,
    .iflush = flush,
    .test = test,
    .closeSend = close_comm,
    .closeRecv = close_comm,
    .closeListen = close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = finalize,
    .setNetAttr = nullptr,
};
}
