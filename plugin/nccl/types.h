#pragma once
// The parts that all versions of the ncclNet interface have in common: result codes, the logger,
// pointer kinds, the device handle. Written from the interface's facts (values, order, names,
// sizes); a mistake here is a crash inside NCCL. Thread: any (values). Bound: x86-64 and other LP64
// hosts, where the sizes below hold.

#include <cstddef>
#include <cstdint>

static_assert(sizeof(void*) == 8 && sizeof(int) == 4 && sizeof(std::size_t) == 8,
              "the sizes of this interface are LP64's");

// Codes above ncclInvalidUsage are unknown to old callers: 6 came with NCCL 2.13.4, 7 with 2.14.
enum ncclResult_t : unsigned int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDebugLogLevel : unsigned int {
  NCCL_LOG_NONE = 0,
  NCCL_LOG_VERSION = 1,
  NCCL_LOG_WARN = 2,
  NCCL_LOG_INFO = 3,
  NCCL_LOG_ABORT = 4,
  NCCL_LOG_TRACE = 5,
};

// Subsystem bits of the logger's flags; only those that a network plugin can use. Whatever its
// level, NCCL drops a line if none of its bits is in NCCL_DEBUG_SUBSYS.
inline constexpr unsigned long NCCL_INIT = 0x1;
inline constexpr unsigned long NCCL_NET = 0x10;
inline constexpr unsigned long NCCL_ENV = 0x80;
inline constexpr unsigned long NCCL_BOOTSTRAP = 0x1000;
inline constexpr unsigned long NCCL_ALL = ~0ul;

using ncclDebugLogger_t = void (*)(ncclDebugLogLevel level, unsigned long flags, const char* file,
                                   int line, const char* format, ...);

// Events of the profiler callback (v10 and later). "Start" must not be given a null phandle.
using ncclProfilerCallback_t = ncclResult_t (*)(void** event, int type, void* phandle,
                                                std::int64_t plugin, void* extra);

inline constexpr int NCCL_PTR_HOST = 0x1;
inline constexpr int NCCL_PTR_CUDA = 0x2;
inline constexpr int NCCL_PTR_DMABUF = 0x4;

inline constexpr std::size_t NCCL_NET_HANDLE_MAXSIZE = 128;
inline constexpr int NCCL_NET_MAX_REQUESTS = 32;  // 8 up to NCCL 2.18
inline constexpr std::size_t NCCL_MAX_NET_SIZE_BYTES = 1ul
                                                       << 40;  // maxP2pBytes must lie in (0, this]
inline constexpr int NCCL_NET_TRAFFIC_CLASS_UNDEF = -1;
inline constexpr std::int16_t NCCL_NET_ID_UNDEF = -1;
// NCCL may store this value in irecv's *request before the call, from 2.24.3 on.
inline constexpr std::uintptr_t NCCL_NET_OPTIONAL_RECV_COMPLETION = 0x1;

enum ncclNetDeviceType : unsigned int { NCCL_NET_DEVICE_HOST = 0, NCCL_NET_DEVICE_UNPACK = 1 };
inline constexpr int NCCL_NET_DEVICE_INVALID_VERSION = 0;

// One struct from v7 to v12.
struct ncclNetDeviceHandle_v7_t {
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  void* handle;
  std::size_t size;
  int needsProxyProgress;
};
using ncclNetDeviceHandle_t = ncclNetDeviceHandle_v7_t;

static_assert(sizeof(ncclResult_t) == 4 && sizeof(ncclDebugLogLevel) == 4 &&
              sizeof(ncclNetDeviceType) == 4);
static_assert(sizeof(ncclNetDeviceHandle_v7_t) == 32);
static_assert(offsetof(ncclNetDeviceHandle_v7_t, handle) == 8 &&
              offsetof(ncclNetDeviceHandle_v7_t, needsProxyProgress) == 24);
