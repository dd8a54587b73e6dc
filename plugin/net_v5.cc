#include "plugin/nccl/net_v5.h"
#include "plugin/calls.h"

namespace {

namespace api = mesh::plugin::api;
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

}  // namespace

// NCCL 2.12 knows no code above ncclInvalidUsage, so every result passes a filter here.
const ncclNet_v5_t ncclNetPlugin_v5 = {
    .name = api::kName,
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
