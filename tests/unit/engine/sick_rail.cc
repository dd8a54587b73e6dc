#include "tests/unit/engine/sick_rail.h"

#include "tests/unit/engine/patience.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace mesh::testkit {

std::string test_name_of(Call call) {
  std::string name = name_of(call);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::vector<Call> all_calls() {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < kCalls; ++i) calls.push_back(static_cast<Call>(i));
  return calls;
}

void SickRail::note(Call call, const ibv_context* context) {
  if (context == nullptr || std::string_view(context->device->name) != kDevice) return;
  Counts& counts = counts_[static_cast<std::size_t>(call)];
  counts.all.fetch_add(1);
  if (held_here().control_mutexes != 0) counts.control.fetch_add(1);
  if (held_here().progress_locks != 0) counts.progress.fetch_add(1);
  const auto is_slow = [this, call] { return slow_.load() == static_cast<int>(call); };
  if (!is_slow()) return;
  const std::uint64_t number = waiting_.fetch_add(1) + 1;
  EXPECT_TRUE(wait_until([&] { return let_go_.load() >= number || !is_slow(); }));
  waited_.fetch_add(1);
}

ibv_context* SickRail::open_device(const std::string& name) {
  ibv_context* const context = PassingProvider::open_device(name);
  note(Call::OpenDevice, context);
  return context;
}
int SickRail::close_device(ibv_context* context) {
  note(Call::CloseDevice, context);
  return PassingProvider::close_device(context);
}
int SickRail::query_device(ibv_context* context, ibv_device_attr* attr) {
  note(Call::QueryDevice, context);
  return PassingProvider::query_device(context, attr);
}
int SickRail::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
  note(Call::QueryPort, context);
  return PassingProvider::query_port(context, port, attr);
}
std::vector<verbs::GidEntry> SickRail::gids(ibv_context* context, std::uint8_t port) {
  note(Call::Gids, context);
  return PassingProvider::gids(context, port);
}
int SickRail::query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) {
  note(Call::QueryPkey, context);
  return PassingProvider::query_pkey(context, port, index, pkey);
}
std::uint32_t SickRail::port_speed_mbps(ibv_context* context, std::uint8_t port) {
  note(Call::PortSpeed, context);
  return PassingProvider::port_speed_mbps(context, port);
}
std::unique_ptr<verbs::CableDatagrams> SickRail::open_datagrams(ibv_context* context,
                                                                const verbs::GidEntry& gid,
                                                                verbs::DatagramEnd end) {
  note(Call::OpenDatagrams, context);
  return PassingProvider::open_datagrams(context, gid, end);
}
bool SickRail::next_event(ibv_context* context, verbs::DeviceEvent* event) {
  note(Call::NextEvent, context);
  return PassingProvider::next_event(context, event);
}
ibv_pd* SickRail::alloc_pd(ibv_context* context) {
  note(Call::AllocPd, context);
  return PassingProvider::alloc_pd(context);
}
int SickRail::dealloc_pd(ibv_pd* pd) {
  note(Call::DeallocPd, pd->context);
  return PassingProvider::dealloc_pd(pd);
}
ibv_mr* SickRail::reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) {
  note(Call::RegMr, pd->context);
  return PassingProvider::reg_mr(pd, address, bytes, access);
}
ibv_mr* SickRail::reg_dmabuf_mr(ibv_pd* pd, const verbs::DmaBufferRange& range, int access) {
  note(Call::RegDmabufMr, pd->context);
  return PassingProvider::reg_dmabuf_mr(pd, range, access);
}
bool SickRail::has_peer_memory(ibv_context* context) {
  note(Call::HasPeerMemory, context);
  return PassingProvider::has_peer_memory(context);
}
int SickRail::dereg_mr(ibv_mr* mr) {
  note(Call::DeregMr, mr->context);
  return PassingProvider::dereg_mr(mr);
}
ibv_cq* SickRail::create_cq(ibv_context* context, int entries) {
  note(Call::CreateCq, context);
  return PassingProvider::create_cq(context, entries);
}
int SickRail::destroy_cq(ibv_cq* cq) {
  note(Call::DestroyCq, cq->context);
  return PassingProvider::destroy_cq(cq);
}
ibv_qp* SickRail::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  note(Call::CreateQp, pd->context);
  return PassingProvider::create_qp(pd, attr);
}

namespace {
Call call_of(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_INIT: return Call::ModifyToInit;
    case IBV_QPS_RTR: return Call::ModifyToRtr;
    case IBV_QPS_RTS: return Call::ModifyToRts;
    default: return Call::ModifyToErr;
  }
}
}  // namespace

int SickRail::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  note(call_of(attr->qp_state), qp->context);
  return PassingProvider::modify_qp(qp, attr, mask);
}
int SickRail::destroy_qp(ibv_qp* qp) {
  note(Call::DestroyQp, qp->context);
  return PassingProvider::destroy_qp(qp);
}
int SickRail::query_ece(ibv_qp* qp, ibv_ece* ece) {
  note(Call::QueryEce, qp->context);
  return PassingProvider::query_ece(qp, ece);
}
int SickRail::set_ece(ibv_qp* qp, ibv_ece* ece) {
  note(Call::SetEce, qp->context);
  return PassingProvider::set_ece(qp, ece);
}

}  // namespace mesh::testkit
