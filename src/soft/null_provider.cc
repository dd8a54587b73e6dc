#include "src/soft/null_provider.h"

#include "src/base/log.h"
#include "src/soft/fabric_nics.h"
#include "src/soft/null_fabric.h"

#include <endian.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace mesh::soft {

namespace {

constexpr int kDepthMax = 16384;
constexpr int kEntriesMax = 32767;
constexpr int kNullSgesMax = 4;
constexpr int kGidIndex = 1;
constexpr std::uint8_t kPort = 1;

// The user of each of these holds a pointer to its first member.
struct NullContext {
  ibv_context verbs{};
  ibv_device device{};
  const NicSpec* nic = nullptr;
};

bool may_step(ibv_qp_state from, ibv_qp_state to) {
  switch (to) {
    case IBV_QPS_RESET: return true;
    case IBV_QPS_ERR: return from != IBV_QPS_RESET;
    case IBV_QPS_INIT: return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
    case IBV_QPS_RTR: return from == IBV_QPS_INIT;
    case IBV_QPS_RTS: return from == IBV_QPS_RTR;
    default: return false;
  }
}

void name_device(ibv_device& device, const std::string& name) {
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  name.copy(device.name, IBV_SYSFS_NAME_MAX - 1);
  name.copy(device.dev_name, IBV_SYSFS_NAME_MAX - 1);
}

NullContext& of(ibv_context* context) { return *reinterpret_cast<NullContext*>(context); }
NullQp& of(ibv_qp* qp) { return *reinterpret_cast<NullQp*>(qp); }

class NullProvider final : public verbs::PlainProvider {
 public:
  explicit NullProvider(FabricFile file)
      : file_(std::move(file)), fabric_(file_.null->delivery_polls) {}
  ~NullProvider() override;

  const char* fabric() const noexcept override { return "null"; }
  std::string host_name() const override { return file_.hosts.front().name; }
  std::vector<verbs::DeviceEntry> devices() override;
  ibv_context* open_device(const std::string& name) override;
  const NicSpec* find_nic(const std::string& name) const;
  int close_device(ibv_context* context) override;
  int query_device(ibv_context* context, ibv_device_attr* attr) override;
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override;
  std::vector<verbs::GidEntry> gids(ibv_context* context, std::uint8_t port) override;
  int event_fd(ibv_context*) const noexcept override { return -1; }
  bool next_event(ibv_context*, verbs::DeviceEvent*) override { return false; }
  ibv_pd* alloc_pd(ibv_context* context) override;
  int dealloc_pd(ibv_pd* pd) override;
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override;
  bool has_peer_memory(ibv_context* context) override { return of(context).nic->peer_memory; }
  int dereg_mr(ibv_mr* mr) override;
  ibv_cq* create_cq(ibv_context* context, int entries) override;
  int destroy_cq(ibv_cq* cq) override;
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int destroy_qp(ibv_qp* qp) override;

 private:
  int to_rtr(NullQp& qp, const ibv_qp_attr& attr);

  const FabricFile file_;
  NullFabric fabric_;
};

// The names of the figures are an interface: perf/instructions reads this line.
NullProvider::~NullProvider() {
  const NullCounters c = fabric_.counters();
  LOG_INFO(
      "null fabric: doorbells={} work_requests={} announcements={} receives_posted={} "
      "send_completions={} receive_completions={} "
      "rnr_events={} polls={} queue_pairs={} registered_bytes={}",
      c.doorbells, c.work_requests, c.announcements, c.receives_posted, c.send_completions,
      c.receive_completions, c.rnr_events, c.polls, c.queue_pairs, c.registered_bytes);
}

std::vector<verbs::DeviceEntry> NullProvider::devices() {
  std::vector<verbs::DeviceEntry> list;
  const HostSpec& host = file_.hosts.front();
  for (const NicSpec& nic : host.nics) list.push_back(device_entry(host, nic));
  return list;
}

const NicSpec* NullProvider::find_nic(const std::string& name) const {
  const std::vector<NicSpec>& nics = file_.hosts.front().nics;
  const auto nic = std::find_if(nics.begin(), nics.end(),
                                [&](const NicSpec& each) { return each.name == name; });
  return nic == nics.end() ? nullptr : &*nic;
}

ibv_context* NullProvider::open_device(const std::string& name) {
  const NicSpec* const nic = find_nic(name);
  if (nic == nullptr) return verbs::null_with_errno(ENODEV);
  auto* context = new NullContext;
  context->nic = nic;
  name_device(context->device, name);
  context->verbs.device = &context->device;
  context->verbs.cmd_fd = context->verbs.async_fd = -1;
  context->verbs.num_comp_vectors = 1;
  context->verbs.ops.post_send = null_post_send;
  context->verbs.ops.post_recv = null_post_receive;
  context->verbs.ops.poll_cq = null_poll_cq;
  return &context->verbs;
}

int NullProvider::close_device(ibv_context* context) {
  delete &of(context);
  return 0;
}

int NullProvider::query_device(ibv_context* context, ibv_device_attr* attr) {
  *attr = ibv_device_attr{};
  std::strcpy(attr->fw_ver, "null");
  attr->node_guid = attr->sys_image_guid = htobe64(of(context).nic->guid);
  attr->max_mr_size = UINT64_MAX;
  attr->page_size_cap = 4096;
  attr->max_qp = static_cast<int>(kNullQpsMax);
  attr->max_qp_wr = kDepthMax;
  attr->max_sge = attr->max_sge_rd = kNullSgesMax;
  attr->max_cq = 65536;
  attr->max_cqe = kEntriesMax;
  attr->max_mr = static_cast<int>(kRegionsMax) - 1;
  attr->max_pd = 65536;
  attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 1;
  attr->phys_port_cnt = 1;
  return 0;
}

int NullProvider::query_port(ibv_context*, std::uint8_t port, ibv_port_attr* attr) {
  if (port != kPort) return EINVAL;
  *attr = ibv_port_attr{};
  attr->state = IBV_PORT_ACTIVE;
  attr->phys_state = 5;  // LinkUp
  attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
  attr->gid_tbl_len = 2;
  attr->pkey_tbl_len = 1;
  attr->max_msg_sz = 1u << 31;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  attr->active_speed = 128;  // a lane of 100 Gb/s
  attr->active_width = 1;
  return 0;
}

std::vector<verbs::GidEntry> NullProvider::gids(ibv_context* context, std::uint8_t port) {
  if (port != kPort) return {};
  const NicSpec& nic = *of(context).nic;
  return {{nic.gid, verbs::GidType::RoceV2, kGidIndex, nic.prefix_len, nic.name}};
}

ibv_pd* NullProvider::alloc_pd(ibv_context* context) {
  auto* pd = new ibv_pd{};
  pd->context = context;
  return pd;
}

int NullProvider::dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}

ibv_mr* NullProvider::reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) {
  if (address == nullptr || bytes == 0) {
    errno = EINVAL;
    return nullptr;
  }
  auto mr = std::make_unique<ibv_mr>();
  const std::uint32_t key =
      fabric_.add_region({reinterpret_cast<std::uintptr_t>(address), bytes, pd, access});
  if (key == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  *mr = ibv_mr{pd->context, pd, address, bytes, key, key, key};
  return mr.release();
}

int NullProvider::dereg_mr(ibv_mr* mr) {
  fabric_.remove_region(mr->rkey, mr->length);
  delete mr;
  return 0;
}

ibv_cq* NullProvider::create_cq(ibv_context* context, int entries) {
  if (entries < 1 || entries > kEntriesMax) {
    errno = EINVAL;
    return nullptr;
  }
  auto cq = std::make_unique<NullCq>();
  cq->fabric = &fabric_;
  cq->verbs.context = context;
  cq->verbs.cqe = entries;
  cq->entries.resize(std::bit_ceil(static_cast<std::uint32_t>(entries)));
  return &cq.release()->verbs;
}

int NullProvider::destroy_cq(ibv_cq* cq) {
  auto* ours = reinterpret_cast<NullCq*>(cq);
  if (ours->users != 0) return EBUSY;
  delete ours;
  return 0;
}

ibv_qp* NullProvider::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_cap& cap = attr->cap;
  const bool ok = attr->qp_type == IBV_QPT_RC && attr->srq == nullptr && attr->send_cq != nullptr &&
                  attr->recv_cq != nullptr && cap.max_send_wr <= kDepthMax &&
                  cap.max_recv_wr <= kDepthMax && cap.max_send_sge <= kNullSgesMax &&
                  cap.max_recv_sge <= kNullSgesMax && cap.max_inline_data <= kNullInlineMax;
  if (!ok) {
    errno = EINVAL;
    return nullptr;
  }
  auto qp = std::make_unique<NullQp>();
  qp->fabric = &fabric_;
  qp->send_cq = reinterpret_cast<NullCq*>(attr->send_cq);
  qp->receive_cq = reinterpret_cast<NullCq*>(attr->recv_cq);
  qp->max_sge = cap.max_send_sge;
  qp->max_receive_sge = cap.max_recv_sge;
  qp->max_inline = cap.max_inline_data;
  qp->signal_all = attr->sq_sig_all != 0;
  qp->sends.resize(std::bit_ceil(std::max(cap.max_send_wr, 1u)));
  qp->receives.resize(std::bit_ceil(std::max(cap.max_recv_wr, 1u)));
  cap.max_send_wr = static_cast<std::uint32_t>(qp->sends.size());
  cap.max_recv_wr = static_cast<std::uint32_t>(qp->receives.size());
  qp->verbs.context = pd->context;
  qp->verbs.pd = pd;
  qp->verbs.send_cq = attr->send_cq;
  qp->verbs.recv_cq = attr->recv_cq;
  qp->verbs.qp_type = IBV_QPT_RC;
  if (fabric_.add(*qp)) return &qp.release()->verbs;
  errno = ENOMEM;
  return nullptr;
}

int NullProvider::modify_qp(ibv_qp* verbs, ibv_qp_attr* attr, int mask) {
  NullQp& qp = of(verbs);
  if ((mask & IBV_QP_STATE) == 0 || !may_step(qp.state, attr->qp_state)) return EINVAL;
  if (attr->qp_state == IBV_QPS_RTR) return to_rtr(qp, *attr);
  fabric_.set_state(qp, attr->qp_state);
  return 0;
}

int NullProvider::to_rtr(NullQp& qp, const ibv_qp_attr& attr) {
  if (attr.ah_attr.is_global == 0 || attr.ah_attr.grh.sgid_index != kGidIndex) return EINVAL;
  NicRef to;
  if (!file_.find_gid(attr.ah_attr.grh.dgid, &to)) return ETIMEDOUT;
  if (!fabric_.has(attr.dest_qp_num)) {
    LOG_WARN(
        "null fabric {}: queue pair {:#x} is not of this process; a null fabric joins only "
        "contexts of one process",
        file_.name, attr.dest_qp_num);
    return EHOSTUNREACH;
  }
  qp.dest_qp_num = attr.dest_qp_num;
  fabric_.set_state(qp, IBV_QPS_RTR);
  return 0;
}

int NullProvider::destroy_qp(ibv_qp* qp) {
  fabric_.remove(of(qp));
  delete &of(qp);
  return 0;
}

}  // namespace

Result<std::unique_ptr<verbs::Provider>> open_null(const FabricFile& fabric) {
  if (fabric.null) return std::unique_ptr<verbs::Provider>(std::make_unique<NullProvider>(fabric));
  LOG_WARN("fabric {} is no null fabric", fabric.name);
  return Errc::InvalidArgument;
}

}  // namespace mesh::soft
