#pragma once
// A host whose device n0 takes long for calls of one kind, and messages over its other devices that
// tell how long such a call lasts: it returns after a number of messages, one of which has lost its
// path, or when one message has waited in vain for so many looks that it must be held up. Thread:
// the test's; calls of the device may come from any. Bound: kLooksMax looks at a message.

#include "tests/prelude.h"
#include "tests/unit/engine/held_here.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh::testkit {

// The calls of a provider that name a device: the enumerator and the name. modify_qp is one for
// each state.
// clang-format off
#define MESH_CALLS_OF_A_DEVICE(X)                                                              \
  X(OpenDevice, open_device) X(CloseDevice, close_device) X(QueryDevice, query_device)         \
  X(QueryPort, query_port) X(Gids, gids) X(QueryPkey, query_pkey)                              \
  X(PortSpeed, port_speed_mbps) X(OpenDatagrams, open_datagrams) X(NextEvent, next_event)      \
  X(AllocPd, alloc_pd) X(DeallocPd, dealloc_pd) X(RegMr, reg_mr) X(RegDmabufMr, reg_dmabuf_mr) \
  X(HasPeerMemory, has_peer_memory) X(DeregMr, dereg_mr) X(CreateCq, create_cq)                \
  X(DestroyCq, destroy_cq) X(CreateQp, create_qp) X(ModifyToInit, modify_qp to INIT)           \
  X(ModifyToRtr, modify_qp to RTR) X(ModifyToRts, modify_qp to RTS)                            \
  X(ModifyToErr, modify_qp to ERR) X(DestroyQp, destroy_qp) X(QueryEce, query_ece)             \
  X(SetEce, set_ece) X(CreateChannel, create_channel) X(DestroyChannel, destroy_channel)       \
  X(CreateReportingCq, create_reporting_cq)
// clang-format on
#define MESH_ENUMERATOR(call, name) call,
#define MESH_NAME(call, name) #name,
enum class Call : std::uint8_t { MESH_CALLS_OF_A_DEVICE(MESH_ENUMERATOR) };
inline constexpr std::array kCallNames = {MESH_CALLS_OF_A_DEVICE(MESH_NAME)};
inline constexpr std::size_t kCalls = kCallNames.size();
#undef MESH_ENUMERATOR
#undef MESH_NAME
#undef MESH_CALLS_OF_A_DEVICE
constexpr const char* name_of(Call call) { return kCallNames[static_cast<std::size_t>(call)]; }
std::string test_name_of(Call call);
std::vector<Call> all_calls();

// The locks that callers held, by call.
struct CallCounts {
  std::uint64_t all = 0, with_control_mutex = 0, with_progress_lock = 0;
};

class SickRail final : public PassingProvider {
 public:
  static constexpr const char* kDevice = "n0";
  using PassingProvider::PassingProvider;

  // From now on calls of this kind on the device wait until `over` is true for the time of each.
  void slow_down(Call call) { slow_.store(static_cast<int>(call)); }
  void heal() { slow_.store(-1); }
  // A call that waits, by number; 0: none.
  std::uint64_t waiting() const { return waiting_.load(); }
  bool is_waiting() const { return slow_.load() >= 0 && waiting_.load() > let_go_.load(); }
  std::uint64_t waited() const { return waited_.load(); }
  void let_go() { let_go_.store(waiting_.load()); }
  CallCounts counts(Call call) const {
    const Counts& counts = counts_[static_cast<std::size_t>(call)];
    return {counts.all.load(), counts.control.load(), counts.progress.load()};
  }

  ibv_context* open_device(const std::string& name) override {
    ibv_context* const context = PassingProvider::open_device(name);
    note(Call::OpenDevice, context);
    return context;
  }
// Notes a call, then passes it on with the arguments.
#define MESH_NOTED(result, name, parameters, call, device, ...) \
  result name parameters override {                             \
    note(call, device);                                         \
    return PassingProvider::name(__VA_ARGS__);                  \
  }
  MESH_NOTED(int, close_device, (ibv_context * at), Call::CloseDevice, at, at)
  MESH_NOTED(int, query_device, (ibv_context * at, ibv_device_attr* attr), Call::QueryDevice, at,
             at, attr)
  MESH_NOTED(int, query_port, (ibv_context * at, std::uint8_t port, ibv_port_attr* attr),
             Call::QueryPort, at, at, port, attr)
  MESH_NOTED(std::vector<verbs::GidEntry>, gids, (ibv_context * at, std::uint8_t port), Call::Gids,
             at, at, port)
  MESH_NOTED(int, query_pkey, (ibv_context * at, std::uint8_t port, int index, std::uint16_t* pkey),
             Call::QueryPkey, at, at, port, index, pkey)
  MESH_NOTED(std::uint32_t, port_speed_mbps, (ibv_context * at, std::uint8_t port), Call::PortSpeed,
             at, at, port)
  MESH_NOTED(std::unique_ptr<verbs::CableDatagrams>, open_datagrams,
             (ibv_context * at, const verbs::GidEntry& gid, verbs::DatagramEnd end),
             Call::OpenDatagrams, at, at, gid, end)
  MESH_NOTED(bool, next_event, (ibv_context * at, verbs::DeviceEvent* event), Call::NextEvent, at,
             at, event)
  MESH_NOTED(ibv_pd*, alloc_pd, (ibv_context * at), Call::AllocPd, at, at)
  MESH_NOTED(int, dealloc_pd, (ibv_pd * pd), Call::DeallocPd, pd->context, pd)
  MESH_NOTED(ibv_mr*, reg_mr, (ibv_pd * pd, void* address, std::size_t bytes, int access),
             Call::RegMr, pd->context, pd, address, bytes, access)
  MESH_NOTED(ibv_mr*, reg_dmabuf_mr, (ibv_pd * pd, const verbs::DmaBufferRange& range, int access),
             Call::RegDmabufMr, pd->context, pd, range, access)
  MESH_NOTED(bool, has_peer_memory, (ibv_context * at), Call::HasPeerMemory, at, at)
  MESH_NOTED(int, dereg_mr, (ibv_mr * mr), Call::DeregMr, mr->context, mr)
  MESH_NOTED(ibv_cq*, create_cq, (ibv_context * at, int entries), Call::CreateCq, at, at, entries)
  MESH_NOTED(ibv_comp_channel*, create_channel, (ibv_context * at), Call::CreateChannel, at, at)
  MESH_NOTED(int, destroy_channel, (ibv_comp_channel * channel), Call::DestroyChannel,
             channel->context, channel)
  MESH_NOTED(ibv_cq*, create_reporting_cq, (ibv_comp_channel * channel, int entries),
             Call::CreateReportingCq, channel->context, channel, entries)
  MESH_NOTED(int, destroy_cq, (ibv_cq * cq), Call::DestroyCq, cq->context, cq)
  MESH_NOTED(ibv_qp*, create_qp, (ibv_pd * pd, ibv_qp_init_attr* attr), Call::CreateQp, pd->context,
             pd, attr)
  MESH_NOTED(int, modify_qp, (ibv_qp * qp, ibv_qp_attr* attr, int mask), call_of(attr->qp_state),
             qp->context, qp, attr, mask)
  MESH_NOTED(int, destroy_qp, (ibv_qp * qp), Call::DestroyQp, qp->context, qp)
  MESH_NOTED(int, query_ece, (ibv_qp * qp, ibv_ece* ece), Call::QueryEce, qp->context, qp, ece)
  MESH_NOTED(int, set_ece, (ibv_qp * qp, ibv_ece* ece), Call::SetEce, qp->context, qp, ece)
#undef MESH_NOTED

 private:
  struct Counts {
    std::atomic<std::uint64_t> all{0}, control{0}, progress{0};
  };
  void note(Call call, const ibv_context* context);
  static Call call_of(ibv_qp_state state);

  std::array<Counts, kCalls> counts_;
  std::atomic<int> slow_{-1};
  std::atomic<std::uint64_t> waiting_{0}, waited_{0}, let_go_{0};
};

}  // namespace mesh::testkit
