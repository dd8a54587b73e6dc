#include "plugin/nccl/net_v8.h"
#include "plugin/calls.h"

namespace api = mesh::plugin::api;
namespace calls = mesh::plugin::calls;

const ncclNet_v8_t ncclNetPlugin_v8 = {
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
    .isend = calls::isend_v5,
    .irecv = calls::irecv_v5,
    .iflush = calls::iflush,
    .test = calls::test,
    .closeSend = calls::close_channel,
    .closeRecv = calls::close_channel,
    .closeListen = calls::close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
};
