// The provider's calls about its devices, ports and GIDs, and the entries of the data path in
// ibv_context_ops.

#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/soft/fabric_routes.h"
#include "src/soft/port_codes.h"
#include "src/soft/soft_host.h"

#include <endian.h>

#include <cerrno>
#include <cstring>

namespace mesh::soft {

namespace {

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  if (soft(qp->context).dead()) {
    *bad = wr;
    return EIO;
  }
  return soft(qp).nic->post_send(soft(qp), wr, bad);
}
int post_receive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  if (soft(qp->context).dead()) {
    *bad = wr;
    return EIO;
  }
  return soft(qp).nic->post_receive(soft(qp), wr, bad);
}
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) {
  CompletionQueue& queue = soft(cq);
  queue.nic->try_turn();
  const int found = queue.pop(count, wc);
  if (found > 0) queue.nic->count_completions(static_cast<std::uint64_t>(found));
  // Completions that a card has brought before it left are in memory.
  return found == 0 && soft(cq->context).dead() ? -1 : found;
}

int notify_cq(ibv_cq* cq, int) {
  CompletionQueue& queue = soft(cq);
  if (!queue.can_report()) return EINVAL;
  queue.nic->arm(queue);
  return 0;
}

Nic& nic_of(ibv_context* context) { return *soft(context).nic; }

}  // namespace

std::vector<verbs::DeviceEntry> SoftHost::devices() {
  std::vector<verbs::DeviceEntry> list;
  for (const std::unique_ptr<Nic>& nic : nics_)
    if (!nic->port_state().slot_empty) list.push_back(device_entry(spec(), nic->spec()));
  return list;
}

ibv_context* SoftHost::open_device(const std::string& name) {
  CHECK(!holds_locks());
  for (const std::unique_ptr<Nic>& nic : nics_) {
    if (nic->spec().name != name || nic->port_state().slot_empty) continue;
    auto context = std::make_unique<SoftContext>();
    if (context->events.fd() < 0) return nullptr;  // errno of eventfd
    context->nic = nic.get();
    context->card = nic->card();
    context->device.node_type = IBV_NODE_CA;
    context->device.transport_type = IBV_TRANSPORT_IB;
    name.copy(context->device.name, IBV_SYSFS_NAME_MAX - 1);
    name.copy(context->device.dev_name, IBV_SYSFS_NAME_MAX - 1);
    context->verbs.device = &context->device;
    context->verbs.cmd_fd = -1;
    context->verbs.async_fd = context->events.fd();
    context->verbs.num_comp_vectors = 1;
    context->verbs.ops.post_send = post_send;
    context->verbs.ops.post_recv = post_receive;
    context->verbs.ops.poll_cq = poll_cq;
    context->verbs.ops.req_notify_cq = notify_cq;
    nic->open_events(context->events);
    return &context.release()->verbs;
  }
  errno = ENODEV;
  return nullptr;
}

int SoftHost::close_device(ibv_context* context) {
  CHECK(!holds_locks());
  if (soft(context).users.load(std::memory_order_relaxed) != 0) return EBUSY;
  nic_of(context).close_events(soft(context).events);
  delete &soft(context);
  return 0;
}

bool SoftHost::next_event(ibv_context* context, verbs::DeviceEvent* event) {
  CHECK(!holds_locks());
  return soft(context).events.pop(event);
}

int SoftHost::query_device(ibv_context* context, ibv_device_attr* attr) {
  CHECK(!holds_locks());
  if (soft(context).dead()) return EIO;
  *attr = ibv_device_attr{};
  std::strcpy(attr->fw_ver, "soft");
  attr->node_guid = attr->sys_image_guid = htobe64(nic_of(context).spec().guid);
  attr->max_mr_size = UINT64_MAX;
  attr->page_size_cap = 4096;
  attr->max_qp = kQpsMax;
  attr->max_qp_wr = kQpWrMax;
  attr->max_sge = attr->max_sge_rd = kSgesMax;
  attr->max_cq = 65536;
  attr->max_cqe = kCqeMax;
  attr->max_mr = kRegionsMax - 1;
  attr->max_pd = 65536;
  attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = kReadsMax;
  attr->phys_port_cnt = 1;
  return 0;
}

int SoftHost::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
  CHECK(!holds_locks());
  if (port != kPort) return EINVAL;
  const LinkSpec* link = nic_of(context).link();
  *attr = ibv_port_attr{};
  const auto [up, gone, slot_empty, lid] = nic_of(context).port_state();
  if (gone || soft(context).dead()) return EIO;
  attr->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->phys_state = up ? 5 : link != nullptr ? 2 : 3;  // LinkUp, Polling (for a signal), Disabled
  attr->max_mtu = IBV_MTU_4096;
  // A port without a signal shows no MTU, as drivers do.
  const NicSpec& spec = nic_of(context).spec();
  attr->active_mtu = up ? mtu_code(spec.mtu) : ibv_mtu{};
  attr->gid_tbl_len = 16;
  attr->pkey_tbl_len = static_cast<std::uint16_t>(spec.pkeys.size());
  attr->max_msg_sz = kWorkRequestBytesMax;
  attr->lid = lid;
  attr->flags = spec.global_header ? IBV_QPF_GRH_REQUIRED : 0;
  attr->link_layer = layer_code(spec.layer);
  name_rate(named_gbps(link), attr);
  return 0;
}

int SoftHost::query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) {
  CHECK(!holds_locks());
  if (soft(context).dead()) return EIO;
  const std::vector<std::uint16_t>& pkeys = nic_of(context).spec().pkeys;
  if (port != kPort || index < 0 || static_cast<std::size_t>(index) >= pkeys.size()) return EINVAL;
  *pkey = pkeys[static_cast<std::size_t>(index)];
  return 0;
}

verbs::Route SoftHost::route(const verbs::GidEntry& from, const ibv_gid& to) {
  return FabricRoutes(options_.fabric, host_index_).route(from, to);
}

std::uint32_t SoftHost::port_speed_mbps(ibv_context* context, std::uint8_t port) {
  CHECK(!holds_locks());
  const LinkSpec* const link = nic_of(context).link();
  if (soft(context).dead() || port != kPort || link == nullptr || !link->bond) return 0;
  return static_cast<std::uint32_t>(link->gbps * 1000);
}

// Returns a table that begins with link-local entries and has holes, and in which the index of the
// address differs between NICs. So a user that relies on a fixed index fails.
std::vector<verbs::GidEntry> SoftHost::gids(ibv_context* context, std::uint8_t port) {
  CHECK(!holds_locks());
  if (port != kPort || soft(context).dead()) return {};
  const Nic& nic = nic_of(context);
  const NicSpec& spec = nic.spec();
  if (spec.layer == LinkLayer::InfiniBand)
    return {{spec.gid, verbs::GidType::Ib, 0, spec.prefix_len, ""}};
  const ibv_gid local = link_local_gid(spec);
  const int first = 4 + 2 * (nic.index() % 3);
  return {{local, verbs::GidType::RoceV1, 0, 64, spec.name},
          {local, verbs::GidType::RoceV2, 1, 64, spec.name},
          {spec.gid, verbs::GidType::RoceV1, first, spec.prefix_len, spec.name},
          {spec.gid, verbs::GidType::RoceV2, first + 1, spec.prefix_len, spec.name}};
}

}  // namespace mesh::soft
