#pragma once
// A host whose device n0 takes long for calls of one kind, and messages over its other devices that
// tell how long such a call lasts: it returns after a number of messages, one of which has lost its
// path, or when one message has waited in vain for so many looks that it must be held up. Thread:
// the test's; calls of the device may come from any. Bound: kLooksMax looks at a message.

#include "tests/unit/engine/held_here.h"
#include "tests/unit/soft/passing_provider.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mesh::testkit {

// The calls of a provider that name a device. modify_qp is one for each state.
enum class Call : std::uint8_t {
  OpenDevice,
  CloseDevice,
  QueryDevice,
  QueryPort,
  Gids,
  QueryPkey,
  PortSpeed,
  OpenDatagrams,
  NextEvent,
  AllocPd,
  DeallocPd,
  RegMr,
  RegDmabufMr,
  HasPeerMemory,
  DeregMr,
  CreateCq,
  DestroyCq,
  CreateQp,
  ModifyToInit,
  ModifyToRtr,
  ModifyToRts,
  ModifyToErr,
  DestroyQp,
  QueryEce,
  SetEce,
};
inline constexpr std::size_t kCalls = static_cast<std::size_t>(Call::SetEce) + 1;
inline constexpr std::array<const char*, kCalls> kCallNames = {"open_device",
                                                               "close_device",
                                                               "query_device",
                                                               "query_port",
                                                               "gids",
                                                               "query_pkey",
                                                               "port_speed_mbps",
                                                               "open_datagrams",
                                                               "next_event",
                                                               "alloc_pd",
                                                               "dealloc_pd",
                                                               "reg_mr",
                                                               "reg_dmabuf_mr",
                                                               "has_peer_memory",
                                                               "dereg_mr",
                                                               "create_cq",
                                                               "destroy_cq",
                                                               "create_qp",
                                                               "modify_qp to INIT",
                                                               "modify_qp to RTR",
                                                               "modify_qp to RTS",
                                                               "modify_qp to ERR",
                                                               "destroy_qp",
                                                               "query_ece",
                                                               "set_ece"};
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

  ibv_context* open_device(const std::string& name) override;
  int close_device(ibv_context* context) override;
  int query_device(ibv_context* context, ibv_device_attr* attr) override;
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override;
  std::vector<verbs::GidEntry> gids(ibv_context* context, std::uint8_t port) override;
  int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) override;
  std::uint32_t port_speed_mbps(ibv_context* context, std::uint8_t port) override;
  std::unique_ptr<verbs::CableDatagrams> open_datagrams(ibv_context* context,
                                                        const verbs::GidEntry& gid,
                                                        verbs::DatagramEnd end) override;
  bool next_event(ibv_context* context, verbs::DeviceEvent* event) override;
  ibv_pd* alloc_pd(ibv_context* context) override;
  int dealloc_pd(ibv_pd* pd) override;
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override;
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const verbs::DmaBufferRange& range, int access) override;
  bool has_peer_memory(ibv_context* context) override;
  int dereg_mr(ibv_mr* mr) override;
  ibv_cq* create_cq(ibv_context* context, int entries) override;
  int destroy_cq(ibv_cq* cq) override;
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int destroy_qp(ibv_qp* qp) override;
  int query_ece(ibv_qp* qp, ibv_ece* ece) override;
  int set_ece(ibv_qp* qp, ibv_ece* ece) override;

 private:
  struct Counts {
    std::atomic<std::uint64_t> all{0}, control{0}, progress{0};
  };
  void note(Call call, const ibv_context* context);

  std::array<Counts, kCalls> counts_;
  std::atomic<int> slow_{-1};
  std::atomic<std::uint64_t> waiting_{0}, waited_{0}, let_go_{0};
};

}  // namespace mesh::testkit
