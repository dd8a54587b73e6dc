#pragma once
// One class for the tables of all versions: every difference is an `if constexpr` on the version
// beside the call that it concerns. Thread: as NetApi.

#include "perf/driver/net_api.h"

#include <array>
#include <climits>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <utility>

namespace mesh::driver {

void plugin_log_callback(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                         const char* format, ...);

// Owns a dlopen'ed library.
class Library {
 public:
  explicit Library(void* handle) noexcept : handle_(handle) {}
  Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Library& operator=(Library&&) = delete;
  ~Library();
  void* symbol(const char* name) const noexcept;
  Snapshot snapshot() const;

 private:
  void* handle_;
};

template <int kVersion>
class NetAdapter final : public NetApi {
  using Net = typename nccl::Version<kVersion>::Net;
  using Properties = typename nccl::Version<kVersion>::Properties;
  using Bytes = std::conditional_t<kVersion >= 9, std::size_t, int>;  // of a message

 public:
  NetAdapter(Library library, const Net& net)
      : library_(std::move(library)), net_(net), name_(net.name) {}

  int version() const noexcept override { return kVersion; }
  const char* name() const noexcept override { return name_.c_str(); }
  Snapshot snapshot() const override { return library_.snapshot(); }
  const ncclCollNet_v12_t* collnet() const override {
    return static_cast<const ncclCollNet_v12_t*>(library_.symbol("ncclCollNetPlugin_v12"));
  }

  int init(std::uint64_t comm_id, void** context) override {
    *context = nullptr;
    if constexpr (kVersion >= 11) {
      ncclNetCommConfig_v10_t config{NCCL_NET_TRAFFIC_CLASS_UNDEF};
      return code(net_.init(context, comm_id, &config, &plugin_log_callback, profiler_));
    } else {
      // NCCL's adapters call the real init only while their count is 0, and there is no finalize to
      // undo it.
      const std::lock_guard<std::mutex> lock(init_mutex_);
      if (initialised_) return kNetSuccess;
      int result = kNetSuccess;
      if constexpr (kVersion == 10) {
        result = code(net_.init(&plugin_log_callback, profiler_));
      } else {
        result = code(net_.init(&plugin_log_callback));
      }
      initialised_ = result == kNetSuccess;
      return result;
    }
  }

  int finalize([[maybe_unused]] void* context) override {
    if constexpr (kVersion >= 11) return code(net_.finalize(context));
    return kNetSuccess;
  }

  int devices(int* count) override { return code(net_.devices(count)); }

  int properties(int device, NetProperties* out) override {
    Properties raw;
    std::memset(&raw, 0xa5, sizeof(raw));  // NCCL hands over uninitialised stack memory
    const int result = code(net_.getProperties(device, &raw));
    if (result == kNetSuccess) fill(raw, out);
    return result;
  }

  int listen([[maybe_unused]] void* context, int device, void* handle,
             void** listen_comm) override {
    if constexpr (kVersion >= 11)
      return code(net_.listen(context, device, handle, listen_comm));
    else
      return code(net_.listen(device, handle, listen_comm));
  }

  int connect([[maybe_unused]] void* context, int device, void* handle, void** send_comm) override {
    [[maybe_unused]] ncclNetDeviceHandle_t* offload = nullptr;
    if constexpr (kVersion >= 11) {
      return code(net_.connect(context, device, handle, send_comm, &offload));
    } else if constexpr (kVersion == 10) {
      ncclNetCommConfig_v10_t config{NCCL_NET_TRAFFIC_CLASS_UNDEF};
      return code(net_.connect(device, &config, handle, send_comm, &offload));
    } else if constexpr (kVersion >= 7) {
      return code(net_.connect(device, handle, send_comm, &offload));
    } else {
      return code(net_.connect(device, handle, send_comm));
    }
  }

  int accept(void* listen_comm, void** recv_comm) override {
    [[maybe_unused]] ncclNetDeviceHandle_t* offload = nullptr;
    if constexpr (kVersion >= 7)
      return code(net_.accept(listen_comm, recv_comm, &offload));
    else
      return code(net_.accept(listen_comm, recv_comm));
  }

  int close_listen(void* comm) override { return code(net_.closeListen(comm)); }
  int close_send(void* comm) override { return code(net_.closeSend(comm)); }
  int close_recv(void* comm) override { return code(net_.closeRecv(comm)); }

  int reg_mr(void* comm, const NetRegion& region, void** mhandle) override {
    if constexpr (kVersion >= 6) {
      if (region.fd >= 0)
        return code(
            net_.regMrDmaBuf(comm, region.data, region.bytes, region.type, 0, region.fd, mhandle));
    }
    if constexpr (kVersion >= 8) {
      return code(net_.regMr(comm, region.data, region.bytes, region.type, mhandle));
    } else {
      if (region.bytes > INT_MAX) return kNetInternalError;
      return code(
          net_.regMr(comm, region.data, static_cast<int>(region.bytes), region.type, mhandle));
    }
  }

  int dereg_mr(void* comm, void* mhandle) override { return code(net_.deregMr(comm, mhandle)); }

  int isend(void* comm, const NetPiece& piece, void** request) override {
    if (kVersion < 9 && piece.bytes > kOldMessageMax) return kNetInternalError;
    if constexpr (kVersion >= 10) {
      return code(net_.isend(comm, piece.data, piece.bytes, piece.tag, piece.mhandle, piece.phandle,
                             request));
    } else {
      return code(net_.isend(comm, piece.data, static_cast<Bytes>(piece.bytes), piece.tag,
                             piece.mhandle, request));
    }
  }

  // It is no group of one: perf/instructions counts what an adapter calls, but not the adapter.
  int irecv(void* comm, const NetPiece& piece, void** request) override {
    if (kVersion < 9 && piece.bytes > kOldMessageMax) return kNetInternalError;
    // The 0x1 marker ("completion not needed") was never shown to plugins older than v9.
    if (kVersion < 9 && *request == reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION))
      *request = nullptr;
    Bytes bytes = static_cast<Bytes>(piece.bytes);
    void* data = piece.data;
    int tag = piece.tag;
    void* mhandle = piece.mhandle;
    [[maybe_unused]] void* phandle = piece.phandle;
    if constexpr (kVersion >= 10)
      return code(net_.irecv(comm, 1, &data, &bytes, &tag, &mhandle, &phandle, request));
    else
      return code(net_.irecv(comm, 1, &data, &bytes, &tag, &mhandle, request));
  }

  int irecv_group(void* comm, std::span<const NetPiece> pieces, void** request) override {
    std::array<Bytes, kNetGroupMax> bytes;
    std::array<void*, kNetGroupMax> data, mhandles, phandles;
    std::array<int, kNetGroupMax> tags;
    if (pieces.size() > kNetGroupMax) return kNetInternalError;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (kVersion < 9 && pieces[i].bytes > kOldMessageMax) return kNetInternalError;
      bytes[i] = static_cast<Bytes>(pieces[i].bytes);
      data[i] = pieces[i].data;
      mhandles[i] = pieces[i].mhandle;
      phandles[i] = pieces[i].phandle;
      tags[i] = pieces[i].tag;
    }
    const int count = static_cast<int>(pieces.size());
    if constexpr (kVersion >= 10)
      return code(net_.irecv(comm, count, data.data(), bytes.data(), tags.data(), mhandles.data(),
                             phandles.data(), request));
    else
      return code(net_.irecv(comm, count, data.data(), bytes.data(), tags.data(), mhandles.data(),
                             request));
  }

  int iflush(void* comm, const NetPiece& piece, void** request) override {
    int bytes = static_cast<int>(piece.bytes);
    void* data = piece.data;
    void* mhandle = piece.mhandle;
    return code(net_.iflush(comm, 1, &data, &bytes, &mhandle, request));
  }

  int test(void* request, int* done, int* bytes) override {
    return code(net_.test(request, done, bytes));
  }

 private:
  static constexpr std::size_t kOldMessageMax = std::size_t{1}
                                                << 30;  // NCCL's v6..v8 adapters refuse more

  static void fill(const Properties& raw, NetProperties* out) {
    *out = NetProperties{};
    out->name = raw.name;
    if (raw.pciPath != nullptr) out->pci_path = raw.pciPath;
    out->guid = raw.guid;
    out->ptr_support = raw.ptrSupport;
    out->speed_mbps = raw.speed;
    out->port = raw.port;
    out->max_comms = raw.maxComms;
    out->max_recvs = raw.maxRecvs;
    out->latency_us = raw.latency;
    if constexpr (kVersion >= 7) {
      out->device_type = static_cast<int>(raw.netDeviceType);
      out->device_version = raw.netDeviceVersion;
    }
    if constexpr (kVersion >= 8) out->reg_is_global = raw.regIsGlobal;
    if constexpr (kVersion >= 9) {
      out->force_flush = raw.forceFlush;
      out->virtual_count = raw.vProps.ndevs;
      out->max_p2p_bytes = raw.maxP2pBytes;
      out->max_coll_bytes = raw.maxCollBytes;
    }
  }

  static int code(ncclResult_t result) noexcept { return static_cast<int>(result); }

  Library library_;
  const Net& net_;  // a reference, as in NCCL: the plugin may choose its calls at init
  std::string name_;
  std::mutex init_mutex_;
  bool initialised_ = false;
};

}  // namespace mesh::driver
