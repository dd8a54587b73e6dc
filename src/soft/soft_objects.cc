// The objects of a SoftHost: protection domains, regions, completion queues, queue pairs and their
// states, and the datagrams of its net devices.

#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/pages.h"
#include "src/soft/fabric_routes.h"
#include "src/soft/soft_host.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace mesh::soft {

namespace {

// The attributes that each step of a reliable connected queue pair needs, from the InfiniBand
// specification's table of modify attributes. The kernel too refuses fewer, and those of another
// step. We do not have the few optional ones.
constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kToReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToSend = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

constexpr std::uint32_t kEceVendor = 0x534f4654;  // the maker of the options: "SOFT"

// Returns whether all pages are mapped, as get_user_pages would, in one call for any size. It does
// not notice pages that are there but protected.
bool is_mapped(void* address, std::size_t bytes) {
  const std::size_t page = page_bytes();
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(address),
                       first = begin & ~(page - 1);
  if (begin + bytes < begin) return false;
  return ::msync(reinterpret_cast<void*>(first), begin + bytes - first, MS_ASYNC) == 0;
}

// Returns true if the specification grants it, as the kernel checks it: remote writes need local.
bool is_granted(int access) {
  return (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE)) != IBV_ACCESS_REMOTE_WRITE;
}

int error_of(ibv_context* context) { return soft(context).dead() ? EIO : 0; }

// Returns true with errno if the card of the context has left.
bool is_dead(ibv_context* context) {
  if (!soft(context).dead()) return false;
  errno = EIO;
  return true;
}

// Returns null with errno on failure.
ibv_mr* add_region(ibv_pd* pd, const MemoryTable::Region& region, DeviceMapping seen) {
  auto mr = std::make_unique<SoftMr>();  // may throw, and nothing is changed
  const std::uint32_t key = soft(pd->context).nic->add_region(region);
  if (key == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  soft(pd).users.fetch_add(1, std::memory_order_relaxed);
  void* const address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(region.address));
  mr->verbs = ibv_mr{pd->context, pd, address, region.bytes, key, key, key};
  mr->seen = std::move(seen);
  return &mr.release()->verbs;
}

std::shared_ptr<Peer> lost_peer(const std::string& host) {
  auto peer = std::make_shared<Peer>(host);
  peer->lose();
  return peer;
}

bool is_within_limits(const ibv_qp_cap& cap) {
  return cap.max_send_wr <= kQpWrMax && cap.max_recv_wr <= kQpWrMax &&
         cap.max_send_sge <= kSgesMax && cap.max_recv_sge <= kSgesMax &&
         cap.max_inline_data <= kInlineMax;
}

}  // namespace

// Objects of a card that has left are destroyed like others, so that nothing leaks, and the answer
// is EIO.
ibv_pd* SoftHost::alloc_pd(ibv_context* context) {
  CHECK(!holds_locks());
  if (is_dead(context)) return nullptr;
  auto* pd = new SoftPd;
  pd->verbs.context = context;
  soft(context).users.fetch_add(1, std::memory_order_relaxed);
  return &pd->verbs;
}

int SoftHost::dealloc_pd(ibv_pd* pd) {
  CHECK(!holds_locks());
  if (soft(pd).users.load(std::memory_order_relaxed) != 0) return EBUSY;
  const int error = error_of(pd->context);
  soft(pd->context).users.fetch_sub(1, std::memory_order_relaxed);
  delete &soft(pd);
  return error;
}

ibv_mr* SoftHost::reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) {
  CHECK(!holds_locks());
  if (is_dead(pd->context)) return nullptr;
  if (address == nullptr || bytes == 0 || !is_granted(access)) {
    errno = EINVAL;
    return nullptr;
  }
  if (!is_mapped(address, bytes)) {
    errno = EFAULT;
    return nullptr;
  }
  DeviceMapping seen;
  if (has_peer_memory(pd->context)) {
    errno = DeviceMapping::of_address(address, bytes, &seen);
    if (errno != 0) return nullptr;
  }
  const std::uint64_t seen_at = seen.first_byte();
  return add_region(pd, {reinterpret_cast<std::uintptr_t>(address), bytes, pd, access, seen_at},
                    std::move(seen));
}

ibv_mr* SoftHost::reg_dmabuf_mr(ibv_pd* pd, const verbs::DmaBufferRange& range, int access) {
  CHECK(!holds_locks());
  if (is_dead(pd->context)) return nullptr;
  DeviceMapping seen;
  errno = EOPNOTSUPP;
  if (soft(pd->context).nic->spec().dma_buffers)
    errno = is_granted(access) ? DeviceMapping::of_buffer(range, &seen) : EINVAL;
  if (errno != 0) return nullptr;
  const std::uint64_t seen_at = seen.first_byte();
  return add_region(pd, {range.address, range.bytes, pd, access, seen_at}, std::move(seen));
}

bool SoftHost::has_peer_memory(ibv_context* context) {
  CHECK(!holds_locks());
  return soft(context).nic->spec().peer_memory;
}

int SoftHost::dereg_mr(ibv_mr* mr) {
  CHECK(!holds_locks());
  soft(mr->context).nic->remove_region(mr->rkey);  // no turn still acts on it afterwards
  const int users = soft(mr->pd).users.fetch_sub(1, std::memory_order_relaxed);
  CHECK(users > 0);
  const int error = error_of(mr->context);
  delete &soft(mr);
  return error;
}

// Without an agent nothing moves a NIC while its user sleeps, so there are no events.
ibv_comp_channel* SoftHost::create_channel(ibv_context* context) {
  CHECK(!holds_locks());
  if (is_dead(context)) return nullptr;
  if (options_.agent != Agent::Thread || !thread_.joinable())
    return verbs::null_with_errno(EOPNOTSUPP);
  auto channel = std::make_unique<CompletionChannel>(context, board_->waiters_fd());
  if (!channel->valid()) return nullptr;  // with the errno of its descriptors
  soft(context).users.fetch_add(1, std::memory_order_relaxed);
  return &channel.release()->verbs;
}

int SoftHost::destroy_channel(ibv_comp_channel* channel) {
  CHECK(!holds_locks());
  if (soft(channel).users.load(std::memory_order_relaxed) != 0) return EBUSY;
  const int error = error_of(channel->context);
  soft(channel->context).users.fetch_sub(1, std::memory_order_relaxed);
  delete &soft(channel);
  return error;
}

bool SoftHost::next_completion_event(ibv_comp_channel* channel) { return soft(channel).pop(); }

ibv_cq* SoftHost::create_cq(ibv_context* context, int entries) {
  return make_cq(context, entries, nullptr);
}

ibv_cq* SoftHost::create_reporting_cq(ibv_comp_channel* channel, int entries) {
  return make_cq(channel->context, entries, &soft(channel));
}

ibv_cq* SoftHost::make_cq(ibv_context* context, int entries, CompletionChannel* channel) {
  CHECK(!holds_locks());
  if (is_dead(context)) return nullptr;
  if (entries < 1 || entries > kCqeMax) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const queue = new CompletionQueue(context, soft(context).nic, entries, channel);
  soft(context).users.fetch_add(1, std::memory_order_relaxed);
  return &queue->verbs;
}

int SoftHost::destroy_cq(ibv_cq* cq) {
  CHECK(!holds_locks());
  if (soft(cq).nic->in_use(soft(cq))) return EBUSY;
  const int error = error_of(cq->context);
  soft(cq->context).users.fetch_sub(1, std::memory_order_relaxed);
  delete &soft(cq);
  return error;
}

ibv_qp* SoftHost::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  CHECK(!holds_locks());
  if (is_dead(pd->context)) return nullptr;
  ibv_qp_cap& cap = attr->cap;
  const bool ok = attr->qp_type == IBV_QPT_RC && attr->srq == nullptr && attr->send_cq != nullptr &&
                  attr->recv_cq != nullptr && is_within_limits(cap);
  if (!ok) {
    errno = EINVAL;
    return nullptr;
  }
  cap.max_send_wr = std::max(cap.max_send_wr, 1u);
  cap.max_recv_wr = std::max(cap.max_recv_wr, 1u);
  cap.max_send_sge = std::max(cap.max_send_sge, 1u);
  cap.max_recv_sge = std::max(cap.max_recv_sge, 1u);
  if (!soft(pd->context).nic->spec().reliable) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  QueuePair* qp = soft(pd->context).nic->create_qp(pd, attr);
  if (qp == nullptr) return nullptr;
  qp->events = &soft(pd->context).events;
  qp->ece = qp->nic->spec().ece;
  soft(pd).users.fetch_add(1, std::memory_order_relaxed);
  return &qp->verbs;
}

int SoftHost::destroy_qp(ibv_qp* qp) {
  CHECK(!holds_locks());
  const int users = soft(qp->pd).users.fetch_sub(1, std::memory_order_relaxed);
  CHECK(users > 0);
  const int error = error_of(qp->context);
  soft(qp).nic->destroy_qp(&soft(qp));
  return error;
}

int SoftHost::modify_qp(ibv_qp* verbs, ibv_qp_attr* attr, int mask) {
  CHECK(!holds_locks());
  if (soft(verbs->context).dead()) return EIO;
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  QueuePair& qp = soft(verbs);
  // Refuses early what the NIC, which looks again under its lock, would refuse.
  const int from = qp.state.load(std::memory_order_acquire);
  switch (attr->qp_state) {
    case IBV_QPS_RESET: qp.nic->reset(qp); return 0;
    case IBV_QPS_ERR: return qp.nic->fail(qp);
    case IBV_QPS_INIT:
      return from == IBV_QPS_RESET || from == IBV_QPS_INIT ? to_init(qp, *attr, mask) : EINVAL;
    case IBV_QPS_RTR: return from == IBV_QPS_INIT ? to_rtr(qp, *attr, mask) : EINVAL;
    case IBV_QPS_RTS: return from == IBV_QPS_RTR ? to_rts(qp, *attr, mask) : EINVAL;
    default: return EINVAL;
  }
}

int SoftHost::query_ece(ibv_qp* verbs, ibv_ece* ece) {
  CHECK(!holds_locks());
  const QueuePair& qp = soft(verbs);
  if (soft(verbs->context).dead()) return EIO;
  if (qp.nic->spec().ece == 0) return EOPNOTSUPP;
  *ece = {.vendor_id = kEceVendor, .options = qp.ece, .comp_mask = 0};
  return 0;
}

// Grants those of the options asked for that the NIC has.
int SoftHost::set_ece(ibv_qp* verbs, ibv_ece* ece) {
  CHECK(!holds_locks());
  QueuePair& qp = soft(verbs);
  if (soft(verbs->context).dead()) return EIO;
  if (qp.nic->spec().ece == 0) return EOPNOTSUPP;
  const bool early = qp.state.load(std::memory_order_acquire) == IBV_QPS_INIT;
  if (!early || ece->vendor_id != kEceVendor || ece->comp_mask != 0) return EINVAL;
  qp.ece = ece->options &= qp.nic->spec().ece;
  return 0;
}

int SoftHost::to_init(QueuePair& qp, const ibv_qp_attr& attr, int mask) {
  std::uint16_t pkey = 0;
  const bool has_key = query_pkey(qp.verbs.context, kPort, attr.pkey_index, &pkey) == 0;
  if (mask != kToInit || attr.port_num != kPort || !has_key || pkey == 0) return EINVAL;
  return qp.nic->initialise(qp, static_cast<int>(attr.qp_access_flags), pkey);
}

int SoftHost::to_rtr(QueuePair& qp, const ibv_qp_attr& attr, int mask) {
  if (mask != kToReceive || attr.ah_attr.port_num != kPort) return EINVAL;
  if (attr.max_dest_rd_atomic > kReadsMax || attr.min_rnr_timer > kRnrTimerMax) return EINVAL;
  Nic& nic = *qp.nic;
  const std::vector<verbs::GidEntry> table = gids(qp.verbs.context, kPort);
  const auto gid = std::find_if(table.begin(), table.end(), [&](const verbs::GidEntry& entry) {
    return entry.index == attr.ah_attr.grh.sgid_index;
  });
  const bool has_gid = gid != table.end();
  const std::uint32_t port_mtu = nic.link() != nullptr ? nic.spec().mtu : 4096;
  const std::uint32_t mtu =
      attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= IBV_MTU_4096 ? 128u << attr.path_mtu : 0;
  if (mtu == 0 || mtu > port_mtu || (attr.ah_attr.is_global != 0 && !has_gid)) return EINVAL;
  Destination to;
  const FabricRoutes routes(options_.fabric, host_index_);
  if (const int error = routes.resolve({host_index_, nic.index()}, attr.ah_attr, &to); error != 0)
    return error;

  Attributes attributes = qp.attributes;
  if (attr.ah_attr.is_global != 0) attributes.gid_type = static_cast<std::uint8_t>(gid->type);
  attributes.dest_gid = options_.fabric.nic(to.nic).gid;
  attributes.dest_qp_num = attr.dest_qp_num;
  attributes.mtu = mtu;
  attributes.rq_psn = attr.rq_psn & 0xffffff;
  attributes.min_rnr_timer = attr.min_rnr_timer;
  const std::string& host = options_.fabric.hosts[static_cast<std::size_t>(to.nic.host)].name;
  const int slot = slot_of(attr.dest_qp_num);
  Sharing sharing = Sharing::Process;
  const std::shared_ptr<Peer> peer = to.nobody ? lost_peer(host) : find_peer(host, slot, &sharing);
  if (!to.nobody && peer->lost())
    LOG_DETAIL("soft fabric: no running process is host {} (slot {})", host, slot);
  Result<std::shared_ptr<Ring>> ring = Ring::create(qp.sends.depth, sharing);
  if (!ring.ok()) return ENOMEM;
  const Outgoing out{*ring, peer, to.nic.nic, attr.dest_qp_num % kQpsMax};
  if (const int error = nic.connect(qp, attributes, out); error != 0) return error;
  if (to.nobody) return 0;
  send_offer(
      *peer, host,
      {*ring, self_, nic.spec().gid, nic.index(), to.nic.nic, qp.verbs.qp_num, attr.dest_qp_num, 0,
       options_.copy == CopyMode::Cells, attributes.pkey, to.lid, attributes.gid_type});
  return 0;
}

// Finds the peer in this process or in another one. If it is nowhere, it is lost, and posting runs
// into the retries.
std::shared_ptr<Peer> SoftHost::find_peer(const std::string& host, int slot, Sharing* sharing) {
  std::shared_ptr<Peer> peer;
  if (Registry::instance().visit({universe_, host, slot},
                                 [&](LocalHost& local) { peer = local.self(); }))
    return peer;
  if (rendezvous_ != nullptr) {
    *sharing = Sharing::Host;
    return rendezvous_->peer(host, slot);
  }
  return lost_peer(host);
}

void SoftHost::send_offer(const Peer& peer, const std::string& host, const Offer& offer) {
  if (Registry::instance().visit({universe_, host, slot_of(offer.to_qp_num)},
                                 [&](LocalHost& local) { local.take_offer(offer); }))
    return;
  if (rendezvous_ != nullptr) rendezvous_->offer(peer, offer);
}

int SoftHost::to_rts(QueuePair& qp, const ibv_qp_attr& attr, int mask) {
  if (mask != kToSend || attr.max_rd_atomic > kReadsMax) return EINVAL;
  if (attr.timeout > 31 || attr.retry_cnt > 7 || attr.rnr_retry > 7) return EINVAL;
  Attributes attributes = qp.attributes;
  attributes.timeout = attr.timeout;
  attributes.retry_count = attr.retry_cnt;
  attributes.rnr_retry = attr.rnr_retry;
  attributes.sq_psn = attr.sq_psn & 0xffffff;
  return qp.nic->start(qp, attributes);
}

// ---- Datagrams.

std::unique_ptr<verbs::CableDatagrams> SoftHost::open_datagrams(ibv_context* context,
                                                                const verbs::GidEntry&,
                                                                verbs::DatagramEnd end) {
  const Nic& nic = *soft(context).nic;
  if (is_dead(context)) return nullptr;
  if (end == verbs::DatagramEnd::Group && !nic.spec().ipv6) return nullptr;
  if (!nic.spec().netdev || nic.spec().layer != LinkLayer::Ethernet) return nullptr;
  return datagrams_.open(
      {.nic = nic.index(),
       .slot = slot_,
       .place = device_place(options_.fabric, {host_index_, nic.index()}),
       .takes = end,
       .carry = [this](int from, const verbs::DatagramPlace& to,
                       const verbs::CableDatagram& content) { carry_datagram(from, to, content); },
       .is_there = [&nic, card = nic.card()] { return nic.card() == card; }});
}

// A datagram goes to each NIC of the link that has the address, or to all NICs of other hosts there
// if it is for the group, and then to all processes that are these hosts. No router passes it on.
void SoftHost::carry_datagram(int nic, const verbs::DatagramPlace& to,
                              const verbs::CableDatagram& content) {
  Nic& from = *nics_[static_cast<std::size_t>(nic)];
  if (from.link() == nullptr || !from.port_state().up) return;
  const bool to_all = to == verbs::kCableGroup;
  for (const NicRef end : from.link()->ends) {
    const bool own = end.host == host_index_ && (to_all || end.nic == nic);
    const verbs::DatagramPlace its = device_place(options_.fabric, end);
    const bool has_it = to.has_ipv6() ? its.address == to.address : its.ipv4 == to.ipv4;
    if (own || (!to_all && !has_it)) continue;
    const SoftDatagram datagram{.to_nic = end.nic, .to_port = to.port, .content = content};
    const std::string& host = options_.fabric.hosts[static_cast<std::size_t>(end.host)].name;
    if (faults_->armed() && faults_->cut_off(from.spec().name, host, options_.clock.now_ns()))
      continue;
    const int reader = slot_of_port(to.port);
    for (int slot = to_all ? 0 : reader; slot <= (to_all ? kSlotsMax - 1 : reader); ++slot) {
      const auto deliver = [&datagram](LocalHost& local) { local.take_datagram(datagram); };
      if (Registry::instance().visit({universe_, host, slot}, deliver) || rendezvous_ == nullptr)
        continue;
      const std::shared_ptr<Peer> peer = rendezvous_->peer(host, slot);
      if (!peer->lost()) rendezvous_->carry(*peer, datagram);
    }
  }
}

void SoftHost::take_datagram(const SoftDatagram& datagram) {
  if (datagram.to_nic < 0 || datagram.to_nic >= static_cast<int>(nics_.size())) return;
  Nic& nic = *nics_[static_cast<std::size_t>(datagram.to_nic)];
  if (!nic.spec().firewall && nic.port_state().up) datagrams_.take(datagram);
}

}  // namespace mesh::soft
