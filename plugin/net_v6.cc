#include "plugin/calls.h"
#include "plugin/exports.h"
#include "plugin/properties.h"

namespace {

namespace api = mesh::plugin::api;
namespace calls = mesh::plugin::calls;

ncclResult_t get_properties(int device, ncclNetProperties_v6_t* properties) noexcept {
  ncclNetProperties_v12_t newest;
  const ncclResult_t result = api::properties(device, &newest);
  if (result == ncclSuccess) *properties = mesh::plugin::to_v5(newest);
  return result;
}

}  // namespace

const ncclNet_v6_t ncclNetPlugin_v6 = {
    .name = api::kName,
    .init = calls::init_v5,
    .devices = calls::devices,
    .getProperties = get_properties,
    .listen = calls::listen_v5,
    .connect = calls::connect_v5,
    .accept = calls::accept_v5,
    .regMr = calls::reg_mr_v5,
    .regMrDmaBuf = nullptr,
    .deregMr = calls::dereg_mr,
    .isend = calls::isend_v5,
    .irecv = calls::irecv_v5,
    .iflush = calls::iflush,
    .test = calls::test,
    .closeSend = calls::close_channel,
    .closeRecv = calls::close_channel,
    .closeListen = calls::close_listen,
};
