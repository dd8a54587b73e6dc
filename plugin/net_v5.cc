#include "plugin/calls.h"
#include "plugin/exports.h"
#include "plugin/properties.h"

namespace {

namespace api = mesh::plugin::api;
namespace calls = mesh::plugin::calls;

ncclResult_t get_properties(int device, ncclNetProperties_v5_t* properties) noexcept {
  ncclNetProperties_v12_t newest;
  const ncclResult_t result = api::properties(device, &newest);
  if (result == ncclSuccess) *properties = mesh::plugin::to_v5(newest);
  return result;
}

// Call, with the codes of v5.
template <auto Call, typename Type = decltype(Call)>
struct Filtered;
template <auto Call, typename... Args>
struct Filtered<Call, ncclResult_t (*)(Args...) noexcept> {
  static ncclResult_t call(Args... args) noexcept { return mesh::plugin::without_remote_error(Call(args...)); }
};
template <auto Call>
constexpr auto filtered = &Filtered<Call>::call;

}  // namespace

// NCCL 2.12 knows no code above ncclInvalidUsage, so every answer passes a filter here.
const ncclNet_v5_t ncclNetPlugin_v5 = {
    .name = api::kName,
    .init = filtered<&calls::init_v5>,
    .devices = filtered<&calls::devices>,
    .getProperties = filtered<&get_properties>,
    .listen = filtered<&calls::listen_v5>,
    .connect = filtered<&calls::connect_v5>,
    .accept = filtered<&calls::accept_v5>,
    .regMr = filtered<&calls::reg_mr_v5>,
    .deregMr = filtered<&calls::dereg_mr>,
    .isend = filtered<&calls::isend_v5>,
    .irecv = filtered<&calls::irecv_v5>,
    .iflush = filtered<&calls::iflush>,
    .test = filtered<&calls::test>,
    .closeSend = filtered<&calls::close_channel>,
    .closeRecv = filtered<&calls::close_channel>,
    .closeListen = filtered<&calls::close_listen>,
};
