#pragma once
// One face for the tables of all versions, so that one test drives each. Fills what a version lacks
// with what NCCL would. Thread: any.

#include "plugin/exports.h"

#include <array>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

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
};

struct SendCall {
  void* comm = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
  void* mhandle = nullptr;
  int n = 1;  // receives only
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
  std::function<ncclResult_t(void*, void*)> dereg_mr;
  std::function<ncclResult_t(const SendCall&, void**)> isend;
  std::function<ncclResult_t(const SendCall&, void**)> irecv;
  std::function<ncclResult_t(void*, void**)> iflush;
  std::function<ncclResult_t(void*, int*, int*)> test;
  std::function<ncclResult_t(void*)> close_send, close_recv, close_listen;
  std::function<ncclResult_t(void*)> finalize;  // success where there is none
};

namespace detail {

template <typename Table>
constexpr int kVersion = std::is_same_v<Table, ncclNet_v12_t>   ? 12
                         : std::is_same_v<Table, ncclNet_v11_t> ? 11
                         : std::is_same_v<Table, ncclNet_v10_t> ? 10
                         : std::is_same_v<Table, ncclNet_v9_t>  ? 9
                         : std::is_same_v<Table, ncclNet_v8_t>  ? 8
                         : std::is_same_v<Table, ncclNet_v7_t>  ? 7
                         : std::is_same_v<Table, ncclNet_v6_t>  ? 6
                                                                : 5;

template <typename Table>
ncclResult_t init(const Table& t, ncclDebugLogger_t logger, int traffic_class, void** context) {
  *context = nullptr;
  if constexpr (kVersion<Table> >= 11) {
    ncclNetCommConfig_v11_t config{traffic_class};
    return t.init(context, 42, &config, logger, nullptr);
  } else if constexpr (kVersion<Table> == 10) {
    return t.init(logger, nullptr);
  } else {
    return t.init(logger);
  }
}

template <typename Table>
ncclResult_t listen(const Table& t, const Place& at, void* handle, void** comm) {
  if constexpr (kVersion<Table> >= 11) {
    return t.listen(at.context, at.device, handle, comm);
  } else {
    return t.listen(at.device, handle, comm);
  }
}

template <typename Table>
ncclResult_t connect(const Table& t, const Place& at, void* handle, void** comm) {
  ncclNetDeviceHandle_t* offload = nullptr;
  if constexpr (kVersion<Table> >= 11) {
    return t.connect(at.context, at.device, handle, comm, &offload);
  } else if constexpr (kVersion<Table> == 10) {
    ncclNetCommConfig_v10_t config{NCCL_NET_TRAFFIC_CLASS_UNDEF};
    return t.connect(at.device, &config, handle, comm, &offload);
  } else if constexpr (kVersion<Table> >= 7) {
    return t.connect(at.device, handle, comm, &offload);
  } else {
    return t.connect(at.device, handle, comm);
  }
}

template <typename Table>
ncclResult_t accept(const Table& t, void* listener, void** comm) {
  if constexpr (kVersion<Table> >= 7) {
    ncclNetDeviceHandle_t* offload = nullptr;
    return t.accept(listener, comm, &offload);
  } else {
    return t.accept(listener, comm);
  }
}

template <typename Table>
ncclResult_t reg_mr(const Table& t, const RegCall& c, void** mhandle) {
  if constexpr (kVersion<Table> >= 8) {
    return t.regMr(c.comm, c.data, c.bytes, c.type, mhandle);
  } else {
    return t.regMr(c.comm, c.data, static_cast<int>(c.bytes), c.type, mhandle);
  }
}

template <typename Table>
ncclResult_t isend(const Table& t, const SendCall& c, void** request) {
  if constexpr (kVersion<Table> >= 10) {
    return t.isend(c.comm, c.data, c.bytes, c.tag, c.mhandle, nullptr, request);
  } else if constexpr (kVersion<Table> == 9) {
    return t.isend(c.comm, c.data, c.bytes, c.tag, c.mhandle, request);
  } else {
    return t.isend(c.comm, c.data, static_cast<int>(c.bytes), c.tag, c.mhandle, request);
  }
}

template <typename Table>
ncclResult_t irecv(const Table& t, const SendCall& c, void** request) {
  std::array<void*, 8> data{c.data};
  std::array<void*, 8> mhandles{c.mhandle};
  std::array<int, 8> tags{c.tag};
  using Size = std::conditional_t<(kVersion<Table> >= 9), std::size_t, int>;
  std::array<Size, 8> sizes{static_cast<Size>(c.bytes)};
  if constexpr (kVersion<Table> >= 10) {
    return t.irecv(c.comm, c.n, data.data(), sizes.data(), tags.data(), mhandles.data(), nullptr,
                   request);
  } else {
    return t.irecv(c.comm, c.n, data.data(), sizes.data(), tags.data(), mhandles.data(), request);
  }
}

template <typename Table>
ncclResult_t finalize(const Table& t, void* context) {
  if constexpr (kVersion<Table> >= 11) return t.finalize(context);
  return ncclSuccess;
}

template <typename Table>
AnyNet face(const Table& t) {
  AnyNet net;
  net.version = kVersion<Table>;
  net.name = t.name;
  net.init = [&t](ncclDebugLogger_t logger, int tc, void** context) {
    return detail::init(t, logger, tc, context);
  };
  net.devices = t.devices;
  net.listen = [&t](const Place& at, void* h, void** l) { return detail::listen(t, at, h, l); };
  net.connect = [&t](const Place& at, void* h, void** s) { return detail::connect(t, at, h, s); };
  net.accept = [&t](void* l, void** r) { return detail::accept(t, l, r); };
  net.reg_mr = [&t](const RegCall& c, void** m) { return detail::reg_mr(t, c, m); };
  net.dereg_mr = t.deregMr;
  net.isend = [&t](const SendCall& c, void** r) { return detail::isend(t, c, r); };
  net.irecv = [&t](const SendCall& c, void** r) { return detail::irecv(t, c, r); };
  net.iflush = [&t](void* c, void** r) { return t.iflush(c, 0, nullptr, nullptr, nullptr, r); };
  net.test = t.test;
  net.close_send = t.closeSend;
  net.close_recv = t.closeRecv;
  net.close_listen = t.closeListen;
  net.finalize = [&t](void* c) { return detail::finalize(t, c); };
  return net;
}

}  // namespace detail

inline std::vector<AnyNet> every_net() {
  return {detail::face(ncclNetPlugin_v5),  detail::face(ncclNetPlugin_v6),
          detail::face(ncclNetPlugin_v7),  detail::face(ncclNetPlugin_v8),
          detail::face(ncclNetPlugin_v9),  detail::face(ncclNetPlugin_v10),
          detail::face(ncclNetPlugin_v11), detail::face(ncclNetPlugin_v12)};
}

}  // namespace mesh::plugin
