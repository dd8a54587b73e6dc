#include "plugin/calls.h"
#include "plugin/nccl/versions.h"

namespace {

namespace calls = mesh::plugin::calls;

// Wraps a call so that it returns only the result codes of v5.
template <auto Call, typename Type = decltype(Call)>
struct Filtered;
template <auto Call, typename... Args>
struct Filtered<Call, ncclResult_t (*)(Args...) noexcept> {
  static ncclResult_t call(Args... args) noexcept {
    return mesh::plugin::without_remote_error(Call(args...));
  }
};
template <auto Call>
constexpr auto kFiltered = &Filtered<Call>::call;

// Sets the entries that depend on the version, from v6 on.
template <int kVersion, typename Net>
constexpr void set_forms(Net& net) {
  net.regMrDmaBuf = calls::reg_mr_dmabuf_v6;
  if constexpr (kVersion >= 11) {
    net.init = calls::init_v11;
    net.listen = calls::listen_v11;
    net.connect = calls::connect_v11;
    net.finalize = calls::finalize;
    net.setNetAttr = calls::set_net_attr;
  } else if constexpr (kVersion == 10) {
    net.init = calls::init_v10;
    net.listen = calls::listen_v5;
    net.connect = calls::connect_v10;
  } else {
    net.init = calls::init_v5;
    net.listen = calls::listen_v5;
    if constexpr (kVersion >= 7) net.connect = calls::connect_v7;
    if constexpr (kVersion == 6) net.connect = calls::connect_v5;
  }
  if constexpr (kVersion >= 7) net.accept = calls::accept_v7;
  if constexpr (kVersion == 6) net.accept = calls::accept_v5;
  if constexpr (kVersion >= 8) net.regMr = calls::reg_mr_v8;
  if constexpr (kVersion < 8) net.regMr = calls::reg_mr_v5;
  if constexpr (kVersion >= 10) {
    net.isend = calls::isend_v10;
    net.irecv = calls::irecv_v10;
  } else if constexpr (kVersion == 9) {
    net.isend = calls::isend_v9;
    net.irecv = calls::irecv_v9;
  } else {
    net.isend = calls::isend_v5;
    net.irecv = calls::irecv_v5;
  }
}

// Returns a version's table. An entry is null if NCCL asks first whether it may call it: device
// offload (netDeviceType is HOST), irecvConsumed (its request would be gone by then), and virtual
// NICs (the engine joins paths itself).
template <int kVersion>
constexpr auto table() {
  typename mesh::nccl::Version<kVersion>::Net net{};
  net.name = calls::kName;
  net.devices = calls::devices;
  net.getProperties = calls::get_properties;
  net.deregMr = calls::dereg_mr;
  net.iflush = calls::iflush;
  net.test = calls::test;
  net.closeSend = calls::close_channel;
  net.closeRecv = calls::close_channel;
  net.closeListen = calls::close_listen;
  set_forms<kVersion>(net);
  return net;
}

}  // namespace

// NCCL 2.12 knows no code above ncclInvalidUsage, so every result passes a filter here.
const ncclNet_v5_t ncclNetPlugin_v5 = {
    .name = calls::kName,
    .init = kFiltered<&calls::init_v5>,
    .devices = kFiltered<&calls::devices>,
    .getProperties = kFiltered<&calls::get_properties<ncclNetProperties_v5_t>>,
    .listen = kFiltered<&calls::listen_v5>,
    .connect = kFiltered<&calls::connect_v5>,
    .accept = kFiltered<&calls::accept_v5>,
    .regMr = kFiltered<&calls::reg_mr_v5>,
    .deregMr = kFiltered<&calls::dereg_mr>,
    .isend = kFiltered<&calls::isend_v5>,
    .irecv = kFiltered<&calls::irecv_v5>,
    .iflush = kFiltered<&calls::iflush>,
    .test = kFiltered<&calls::test>,
    .closeSend = kFiltered<&calls::close_channel>,
    .closeRecv = kFiltered<&calls::close_channel>,
    .closeListen = kFiltered<&calls::close_listen>,
};
constinit const ncclNet_v6_t ncclNetPlugin_v6 = table<6>();
constinit const ncclNet_v7_t ncclNetPlugin_v7 = table<7>();
constinit const ncclNet_v8_t ncclNetPlugin_v8 = table<8>();
constinit const ncclNet_v9_t ncclNetPlugin_v9 = table<9>();
constinit ncclNet_v10_t ncclNetPlugin_v10 = table<10>();
constinit ncclNet_v11_t ncclNetPlugin_v11 = table<11>();
constinit ncclNet_v12_t ncclNetPlugin_v12 = table<12>();
