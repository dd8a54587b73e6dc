#pragma once
// One interface to the tables of all versions, so that one test can drive each. Arguments that a
// version does not have are filled in as NCCL would. Thread: any.

#include "plugin/nccl/versions.h"
#include "tests/prelude.h"

namespace mesh::plugin {

struct Place {
  void* context = nullptr;  // v11 and later
  int device = 0;
};

struct RegCall {
  void* comm = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;
  int type = NCCL_PTR_HOST;
  std::uint64_t offset = 0;  // in a DMA buffer, with its descriptor
  int fd = -1;
};

struct SendCall {
  void* comm = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
  void* mhandle = nullptr;
  int n = 1;  // used by receives only
};

struct FlushCall {
  int count = 0;
  void** data = nullptr;
  int* bytes = nullptr;
  void** mhandles = nullptr;
};

struct AnyNet {
  int version = 0;
  const char* name = nullptr;
  std::function<ncclResult_t(ncclDebugLogger_t, int traffic_class, void**)> init;
  std::function<ncclResult_t(int*)> devices;
  std::function<ncclResult_t(const Place&, void* handle, void**)> listen;
  std::function<ncclResult_t(const Place&, void* handle, void**)> connect;
  std::function<ncclResult_t(void*, void**)> accept;
  std::function<ncclResult_t(const RegCall&, void**)> reg_mr;
  std::function<ncclResult_t(const RegCall&, void**)> reg_mr_dmabuf;  // empty in version 5
  std::function<ncclResult_t(void*, void*)> dereg_mr;
  std::function<ncclResult_t(const SendCall&, void**)> isend;
  std::function<ncclResult_t(const SendCall&, void**)> irecv;
  std::function<ncclResult_t(void*, void**)> iflush;  // flushes nothing
  std::function<ncclResult_t(void*, const FlushCall&, void**)> iflush_of;
  std::function<ncclResult_t(void*, int*, int*)> test;
  std::function<ncclResult_t(void*)> close_send, close_recv, close_listen;
  std::function<ncclResult_t(void*)> finalize;  // returns success where the version has none
};

namespace detail {

template <int kVersion>
using Table = typename nccl::Version<kVersion>::Net;

template <int kVersion>
ncclResult_t init(const Table<kVersion>& t, ncclDebugLogger_t logger, int traffic_class,
                  void** context) {
  *context = nullptr;
  if constexpr (kVersion >= 11) {
    ncclNetCommConfig_v11_t config{traffic_class};
    return t.init(context, 42, &config, logger, nullptr);
  } else if constexpr (kVersion == 10) {
    return t.init(logger, nullptr);
  } else {
    return t.init(logger);
  }
}

template <int kVersion>
ncclResult_t listen(const Table<kVersion>& t, const Place& at, void* handle, void** comm) {
  if constexpr (kVersion >= 11) {
    return t.listen(at.context, at.device, handle, comm);
  } else {
    return t.listen(at.device, handle, comm);
  }
}

template <int kVersion>
ncclResult_t connect(const Table<kVersion>& t, const Place& at, void* handle, void** comm) {
  ncclNetDeviceHandle_t* offload = nullptr;
  if constexpr (kVersion >= 11) {
    return t.connect(at.context, at.device, handle, comm, &offload);
  } else if constexpr (kVersion == 10) {
    ncclNetCommConfig_v10_t config{NCCL_NET_TRAFFIC_CLASS_UNDEF};
    return t.connect(at.device, &config, handle, comm, &offload);
  } else if constexpr (kVersion >= 7) {
    return t.connect(at.device, handle, comm, &offload);
  } else {
    return t.connect(at.device, handle, comm);
  }
}

template <int kVersion>
ncclResult_t accept(const Table<kVersion>& t, void* listener, void** comm) {
  if constexpr (kVersion >= 7) {
    ncclNetDeviceHandle_t* offload = nullptr;
    return t.accept(listener, comm, &offload);
  } else {
    return t.accept(listener, comm);
  }
}

template <int kVersion>
ncclResult_t reg_mr(const Table<kVersion>& t, const RegCall& c, void** mhandle) {
  if constexpr (kVersion >= 8) {
    return t.regMr(c.comm, c.data, c.bytes, c.type, mhandle);
  } else {
    return t.regMr(c.comm, c.data, static_cast<int>(c.bytes), c.type, mhandle);
  }
}

template <int kVersion>
ncclResult_t isend(const Table<kVersion>& t, const SendCall& c, void** request) {
  if constexpr (kVersion >= 10) {
    return t.isend(c.comm, c.data, c.bytes, c.tag, c.mhandle, nullptr, request);
  } else if constexpr (kVersion == 9) {
    return t.isend(c.comm, c.data, c.bytes, c.tag, c.mhandle, request);
  } else {
    return t.isend(c.comm, c.data, static_cast<int>(c.bytes), c.tag, c.mhandle, request);
  }
}

template <int kVersion>
ncclResult_t irecv(const Table<kVersion>& t, const SendCall& c, void** request) {
  using Size = std::conditional_t<(kVersion >= 9), std::size_t, int>;
  std::array<void*, 9> data;
  std::array<void*, 9> mhandles;
  std::array<int, 9> tags;
  std::array<Size, 9> sizes;
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = c.data;
    mhandles[i] = c.mhandle;
    tags[i] = c.tag + static_cast<int>(i);  // members of a group differ
    sizes[i] = static_cast<Size>(c.bytes + (c.bytes == static_cast<std::size_t>(-1) ? 0 : i));
  }
  if constexpr (kVersion >= 10) {
    return t.irecv(c.comm, c.n, data.data(), sizes.data(), tags.data(), mhandles.data(), nullptr,
                   request);
  } else {
    return t.irecv(c.comm, c.n, data.data(), sizes.data(), tags.data(), mhandles.data(), request);
  }
}

template <int kVersion>
ncclResult_t finalize(const Table<kVersion>& t, void* context) {
  if constexpr (kVersion >= 11) return t.finalize(context);
  return ncclSuccess;
}

template <int kVersion>
AnyNet face() {
  const Table<kVersion>& t = nccl::Version<kVersion>::table();
  AnyNet net;
  net.version = kVersion;
  net.name = t.name;
  net.init = [&t](ncclDebugLogger_t logger, int tc, void** context) {
    return detail::init<kVersion>(t, logger, tc, context);
  };
  net.devices = t.devices;
  net.listen = [&t](const Place& at, void* h, void** l) {
    return detail::listen<kVersion>(t, at, h, l);
  };
  net.connect = [&t](const Place& at, void* h, void** s) {
    return detail::connect<kVersion>(t, at, h, s);
  };
  net.accept = [&t](void* l, void** r) { return detail::accept<kVersion>(t, l, r); };
  net.reg_mr = [&t](const RegCall& c, void** m) { return detail::reg_mr<kVersion>(t, c, m); };
  if constexpr (kVersion >= 6) {
    net.reg_mr_dmabuf = [&t](const RegCall& c, void** m) {
      return t.regMrDmaBuf(c.comm, c.data, c.bytes, c.type, c.offset, c.fd, m);
    };
  }
  net.dereg_mr = t.deregMr;
  net.isend = [&t](const SendCall& c, void** r) { return detail::isend<kVersion>(t, c, r); };
  net.irecv = [&t](const SendCall& c, void** r) { return detail::irecv<kVersion>(t, c, r); };
  net.iflush = [&t](void* c, void** r) { return t.iflush(c, 0, nullptr, nullptr, nullptr, r); };
  net.iflush_of = [&t](void* comm, const FlushCall& c, void** r) {
    return t.iflush(comm, c.count, c.data, c.bytes, c.mhandles, r);
  };
  net.test = t.test;
  net.close_send = t.closeSend;
  net.close_recv = t.closeRecv;
  net.close_listen = t.closeListen;
  net.finalize = [&t](void* c) { return detail::finalize<kVersion>(t, c); };
  return net;
}

}  // namespace detail

inline std::vector<AnyNet> every_net() {
  constexpr int kCount = nccl::kNewestVersion - nccl::kOldestVersion + 1;
  return []<int... kOffsets>(std::integer_sequence<int, kOffsets...>) {
    return std::vector<AnyNet>{detail::face<nccl::kOldestVersion + kOffsets>()...};
  }
  (std::make_integer_sequence<int, kCount>{});
}

}  // namespace mesh::plugin
