#include "plugin/nccl/net_v10.h"
#include "plugin/calls.h"

namespace api = mesh::plugin::api;
namespace calls = mesh::plugin::calls;

constinit ncclNet_v10_t ncclNetPlugin_v10 = {
    .name = api::kName,
    .init = calls::init_v10,
    .devices = calls::devices,
    .getProperties = calls::get_properties,
    .listen = calls::listen_v5,
    .connect = calls::connect_v10,
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
};
