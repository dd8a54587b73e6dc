#pragma once
// The inside of the provider: one process of one host, with its queue pairs and its board, and with
// the NICs and the faults of the host. Thread: any, as Provider. Bound: the NICs of the fabric
// file.

#include "src/soft/board.h"
#include "src/soft/fabric_nics.h"
#include "src/soft/host_state.h"
#include "src/soft/nic.h"
#include "src/soft/rendezvous.h"
#include "src/soft/segment.h"
#include "src/soft/soft_provider.h"

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace mesh::soft {

inline constexpr int kQpWrMax = 16384;
inline constexpr int kCqeMax = 32767;  // the least of any device known: kernel soft-RoCE's
inline constexpr int kReadsMax = 16;   // outstanding, each way
inline constexpr int kRnrTimerMax = 31;

// The user of each of these holds a pointer to its first member.
struct SoftContext {
  ibv_context verbs{};
  ibv_device device{};
  Nic* nic = nullptr;
  std::uint32_t card = 0;  // of the NIC's, when it was opened
  EventQueue events;
  std::atomic<int> users{0};  // protection domains, channels and completion queues

  // Returns true if the card has left for good, so that every call answers EIO.
  bool dead() const noexcept { return nic->card() != card; }
};
struct SoftMr {
  ibv_mr verbs{};
  DeviceMapping seen;  // empty: the memory is the process's own
};
struct SoftPd {
  ibv_pd verbs{};
  std::atomic<int> users{0};
};

inline SoftContext& soft(ibv_context* context) { return *reinterpret_cast<SoftContext*>(context); }
inline SoftMr& soft(ibv_mr* mr) { return *reinterpret_cast<SoftMr*>(mr); }
inline SoftPd& soft(ibv_pd* pd) { return *reinterpret_cast<SoftPd*>(pd); }
inline CompletionChannel& soft(ibv_comp_channel* channel) {
  return *reinterpret_cast<CompletionChannel*>(channel);
}
inline CompletionQueue& soft(ibv_cq* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }

class SoftHost final : public SoftProvider, public LocalHost, public RendezvousEvents {
 public:
  explicit SoftHost(SoftOptions options);
  ~SoftHost() override;
  // Becomes the host. `alone`: only if no other process has the first slot.
  Status start(int host_index, bool alone);

  // SoftProvider.
  bool turn() override;
  std::uint64_t next_due_ns() const override;
  void spend_cpu_ns(std::uint64_t ns) override { cpu_.spend(ns); }
  std::uint64_t take_cpu_ns() override { return cpu_.take(); }
  FaultPlan& faults() override { return *faults_; }
  std::size_t fail_queue_pairs(const std::string& nic, int only) override;
  SoftCounters counters(const std::string& nic) const override;

  // LocalHost, RendezvousEvents.
  const std::shared_ptr<Peer>& self() override { return self_; }
  const std::shared_ptr<HostState>& state() override { return state_; }
  void look_at_ports() override;
  void take_offer(const Offer& offer) override;
  void take_datagram(const SoftDatagram& datagram) override;
  void peer_changed(const Peer& peer) override;
  FaultAnswer take_fault(const FaultOrder& order) override;

  // Provider.
  const char* fabric() const noexcept override { return "soft"; }
  std::string host_name() const override {
    return spec().clone_of.empty() ? options_.host : spec().clone_of;
  }
  std::vector<verbs::DeviceEntry> devices() override;
  ibv_context* open_device(const std::string& name) override;
  int close_device(ibv_context* context) override;
  int query_device(ibv_context* context, ibv_device_attr* attr) override;
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override;
  std::vector<verbs::GidEntry> gids(ibv_context* context, std::uint8_t port) override;
  int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) override;
  std::uint32_t port_speed_mbps(ibv_context* context, std::uint8_t port) override;
  verbs::Route route(const verbs::GidEntry& from, const ibv_gid& to) override;
  std::unique_ptr<verbs::CableDatagrams> open_datagrams(ibv_context* context,
                                                        const verbs::GidEntry& gid,
                                                        verbs::DatagramEnd end) override;
  int event_fd(ibv_context* context) const noexcept override { return context->async_fd; }
  bool next_event(ibv_context* context, verbs::DeviceEvent* event) override;
  ibv_pd* alloc_pd(ibv_context* context) override;
  int dealloc_pd(ibv_pd* pd) override;
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override;
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const verbs::DmaBufferRange& range, int access) override;
  bool has_peer_memory(ibv_context* context) override;
  int dereg_mr(ibv_mr* mr) override;
  ibv_comp_channel* create_channel(ibv_context* context) override;
  int destroy_channel(ibv_comp_channel* channel) override;
  bool next_completion_event(ibv_comp_channel* channel) override;
  ibv_cq* create_cq(ibv_context* context, int entries) override;
  ibv_cq* create_reporting_cq(ibv_comp_channel* channel, int entries) override;
  int destroy_cq(ibv_cq* cq) override;
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int query_ece(ibv_qp* qp, ibv_ece* ece) override;
  int set_ece(ibv_qp* qp, ibv_ece* ece) override;
  int destroy_qp(ibv_qp* qp) override;

 private:
  void swap_plugs(const NicRef& one, const NicRef& other) override {
    options_.fabric.swap_plugs(one, other);
  }
  const HostSpec& spec() const noexcept {
    return options_.fabric.hosts[static_cast<std::size_t>(host_index_)];
  }
  std::uint64_t host_id() const override {
    return hash_text(options_.fabric.name + "/" + options_.host);
  }
  // With a thread as its agent, a NIC stands still with its process.
  bool acknowledges_alone() const noexcept override { return options_.agent == Agent::None; }
  int to_init(QueuePair& qp, const ibv_qp_attr& attr, int mask);
  int to_rtr(QueuePair& qp, const ibv_qp_attr& attr, int mask);
  int to_rts(QueuePair& qp, const ibv_qp_attr& attr, int mask);
  std::shared_ptr<Peer> find_peer(const std::string& host, int slot, Sharing* sharing);
  void send_offer(const Peer& peer, const std::string& host, const Offer& offer);
  void carry_datagram(int nic, const verbs::DatagramPlace& to, const verbs::CableDatagram& content);
  void run();  // the host's one thread
  int tend();
  ibv_cq* make_cq(ibv_context* context, int entries, CompletionChannel* channel);
  Registry::Place place() const { return {universe_, options_.host, slot_}; }
  Status make_board();
  Status claim_slot(bool alone);
  Status find_state();
  void make_nics();
  void arm_faults_of_file();

  SoftOptions options_;
  std::string universe_;
  int host_index_ = -1;
  bool claimed_ = false;
  int slot_ = 0;
  std::shared_ptr<HostState> state_;
  std::unique_ptr<FaultPlan> faults_;
  HostCpu cpu_;
  std::shared_ptr<Board> board_;
  std::shared_ptr<Peer> self_;
  std::vector<std::unique_ptr<Nic>> nics_;
  DatagramReaders datagrams_;
  std::unique_ptr<Rendezvous> rendezvous_;  // null with a manual clock

  // Only the agent uses these.
  std::vector<std::uint64_t> turns_seen_;  // for each NIC
  std::uint64_t busy_at_ns_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  pid_t owner_pid_ = 0;  // the process that the thread runs in
};

}  // namespace mesh::soft
