#include "plugin/nccl/net_v6.h"
#include "plugin/calls.h"

namespace api = mesh::plugin::api;
namespace calls = mesh::plugin::calls;

const ncclNet_v6_t ncclNetPlugin_v6 = {
    .name = api::kName,
    .init = calls::init_v5,
    .devices = calls::devices,
    .getProperties = calls::get_properties,
    .listen = calls::listen_v5,
    .connect = calls::connect_v5,
    .accept = calls::accept_v5,
    .regMr = calls::reg_mr_v5,
    .regMrDmaBuf = calls::reg_mr_dmabuf_v6,
    .deregMr = calls::dereg_mr,
    .isend = calls::isend_v5,
    .irecv = calls::irecv_v5,
    .iflush = calls::iflush,
    .test = calls::test,
    .closeSend = calls::close_channel,
    .closeRecv = calls::close_channel,
    .closeListen = calls::close_listen,
};
