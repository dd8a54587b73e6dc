#include "plugin/nccl/net_v12.h"
#include "plugin/calls.h"

namespace api = mesh::plugin::api;
namespace calls = mesh::plugin::calls;

// The newest version. The other tables differ from it only in the form of their parameters. An
// entry is null if NCCL asks first whether it may call it: device offload (netDeviceType is HOST),
// irecvConsumed (its request would be gone by then), and virtual NICs (the engine joins paths
// itself).
constinit ncclNet_v12_t ncclNetPlugin_v12 = {
    .name = api::kName,
    .init = calls::init_v11,
    .devices = calls::devices,
    .getProperties = calls::get_properties,
    .listen = calls::listen_v11,
    .connect = calls::connect_v11,
    .accept = calls::accept_v7,
    .regMr = calls::reg_mr_v8,
    .regMrDmaBuf = calls::reg_mr_dmabuf_v6,
    .deregMr = calls::dereg_mr,
    .isend = calls::isend_v10,
    .irecv = calls::irecv_v10,
    .iflush = calls::iflush,
    .test = calls::test,
    .closeSend = calls::close_channel,
    .closeRecv = calls::close_channel,
    .closeListen = calls::close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = calls::finalize,
    .setNetAttr = calls::set_net_attr,
};
