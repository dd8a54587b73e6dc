#pragma once
// A network plugin as NCCL sees it, with the differences between the versions of ncclNet taken out:
// one table of calls for the driver, whatever version is loaded. It behaves as NCCL's own adapters
// do (init once per load before v11, size limits before v9). Thread: as NCCL: connections and
// registrations from service threads, data calls from one progress thread per comm. Results are
// ncclResult_t values as int; the ones that we meet have names below.

#include "plugin/nccl/collnet.h"
#include "plugin/nccl/versions.h"
#include "src/base/snapshot_json.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mesh::driver {

inline constexpr int kNetVersionMin = nccl::kOldestVersion;
inline constexpr int kNetVersionMax = nccl::kNewestVersion;
inline constexpr std::size_t kNetHandleBytes = 128;
using NetHandle = std::array<std::byte, kNetHandleBytes>;

inline constexpr int kNetSuccess = 0;
inline constexpr int kNetSystemError = 2;
inline constexpr int kNetInternalError = 3;
inline constexpr int kNetInvalidUsage = 5;
inline constexpr int kNetRemoteError = 6;
inline constexpr int kDriverTimeout = -1;  // the driver's own: a bounded wait ran out

const char* net_result_name(int result) noexcept;
// Returns why a library is no plugin of this version, "no plugin: ..."; empty if it is one.
std::string unusable_plugin(const std::string& path, int version);

struct NetProperties {
  std::string name, pci_path;
  std::uint64_t guid = 0;
  int ptr_support = 0, speed_mbps = 0, port = 0, max_comms = 0, max_recvs = 0;
  float latency_us = 0;
  int reg_is_global = 0, force_flush = 0, device_type = 0, device_version = 0;
  int virtual_count = 1;  // vProps.ndevs, from v9
  std::size_t max_p2p_bytes = 0, max_coll_bytes = 0;
};

// The arguments of one isend or irecv.
struct NetPiece {
  void* data = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
  void* mhandle = nullptr;
  bool flush = false;  // a receive into a GPU's memory: whoever reads it there asks for a flush
  void* phandle = nullptr;  // of the profiler, from v10
};

inline constexpr std::size_t kNetGroupMax = 8;

struct NetRegion {
  void* data = nullptr;
  std::size_t bytes = 0;
  int type = NCCL_PTR_HOST;
  int fd = -1;  // of a DMA buffer, for versions that take one
};

class NetApi {
 public:
  // Opens the library and the table of exactly this version. Returns null if it fails: see `error`.
  static std::unique_ptr<NetApi> load(const std::string& path, int version, std::string& error);
  virtual ~NetApi() = default;  // closes the library; every context must be finalized

  virtual int version() const noexcept = 0;
  virtual const char* name() const noexcept = 0;
  // Returns what the plugin tells of itself now (src/base/snapshot_json.h), or of its latest start
  // if that failed. A plugin that is not nccl-mesh has none: the result has schema 0.
  virtual Snapshot snapshot() const = 0;
  // The CollNet that the library offers beside its net, which NCCL looks for whatever the net's
  // version; null: none. It lives as long as this object.
  virtual const ncclCollNet_v12_t* collnet() const = 0;
  // The logger that inits pass on: the plugin's lines go to PluginLog.
  static ncclDebugLogger_t logger() noexcept;

  // Sets the callback that every init passes on, from v10. NCCL passes one whether a profiler is
  // loaded or not.
  void set_profiler(ncclProfilerCallback_t profiler) noexcept { profiler_ = profiler; }
  virtual int init(std::uint64_t comm_id,
                   void** context) = 0;     // the plugin's lines go to PluginLog
  virtual int finalize(void* context) = 0;  // before v11 there is none: success, nothing called
  virtual int devices(int* count) = 0;
  virtual int properties(int device, NetProperties* out) = 0;

  virtual int listen(void* context, int device, void* handle, void** listen_comm) = 0;
  virtual int connect(void* context, int device, void* handle, void** send_comm) = 0;
  virtual int accept(void* listen_comm, void** recv_comm) = 0;
  virtual int close_listen(void* comm) = 0;
  virtual int close_send(void* comm) = 0;
  virtual int close_recv(void* comm) = 0;

  virtual int reg_mr(void* comm, const NetRegion& region, void** mhandle) = 0;
  virtual int dereg_mr(void* comm, void* mhandle) = 0;

  virtual int isend(void* comm, const NetPiece& piece, void** request) = 0;
  virtual int irecv(void* comm, const NetPiece& piece, void** request) = 0;
  // Starts receives together, kNetGroupMax at most; test() tells the bytes of each.
  virtual int irecv_group(void* comm, std::span<const NetPiece> pieces, void** request) = 0;
  virtual int iflush(void* comm, const NetPiece& piece, void** request) = 0;
  virtual int test(void* request, int* done, int* bytes) = 0;  // bytes may be null

 protected:
  ncclProfilerCallback_t profiler_ = nullptr;
};

}  // namespace mesh::driver
