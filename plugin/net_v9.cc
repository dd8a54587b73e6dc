#include "plugin/nccl/net_v9.h"
#include "plugin/calls.h"

namespace api = mesh::plugin::api;
namespace calls = mesh::plugin::calls;

const ncclNet_v9_t ncclNetPlugin_v9 = {
    .name = api::kName,
    .init = calls::init_v5,
    .devices = calls::devices,
    .getProperties = calls::get_properties,
    .listen = calls::listen_v5,
    .connect = calls::connect_v7,
    .accept = calls::accept_v7,
    .regMr = calls::reg_mr_v8,
    .regMrDmaBuf = calls::reg_mr_dmabuf_v6,
    .deregMr = calls::dereg_mr,
    .isend = calls::isend_v9,
    .irecv = calls::irecv_v9,
    .iflush = calls::iflush,
    .test = calls::test,
    .closeSend = calls::close_channel,
    .closeRecv = calls::close_channel,
    .closeListen = calls::close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
};
