#pragma once
// A provider that passes every call on to the one beneath it, which outlives it. A derived class
// overrides the calls that it changes. Thread: any, as Provider. Bound: that of the provider
// beneath.

#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::verbs {

class ForwardingProvider : public Provider {
 public:
  explicit ForwardingProvider(Provider& beneath) noexcept : beneath_(beneath) {}

  const char* fabric() const noexcept override { return beneath_.fabric(); }
  std::string host_name() const override { return beneath_.host_name(); }
  std::uint64_t host_id() const override { return beneath_.host_id(); }
  bool acknowledges_alone() const noexcept override { return beneath_.acknowledges_alone(); }
  std::vector<DeviceEntry> devices() override { return beneath_.devices(); }
  ibv_context* open_device(const std::string& name) override { return beneath_.open_device(name); }
  int close_device(ibv_context* context) override { return beneath_.close_device(context); }
  int query_device(ibv_context* context, ibv_device_attr* attr) override {
    return beneath_.query_device(context, attr);
  }
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override {
    return beneath_.query_port(context, port, attr);
  }
  std::vector<GidEntry> gids(ibv_context* context, std::uint8_t port) override {
    return beneath_.gids(context, port);
  }
  int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) override {
    return beneath_.query_pkey(context, port, index, pkey);
  }
  std::uint32_t port_speed_mbps(ibv_context* context, std::uint8_t port) override {
    return beneath_.port_speed_mbps(context, port);
  }
  Route route(const GidEntry& from, const ibv_gid& to) override { return beneath_.route(from, to); }
  std::unique_ptr<CableDatagrams> open_datagrams(ibv_context* context, const GidEntry& gid,
                                                 DatagramEnd end) override {
    return beneath_.open_datagrams(context, gid, end);
  }
  int event_fd(ibv_context* context) const noexcept override { return beneath_.event_fd(context); }
  bool next_event(ibv_context* context, DeviceEvent* event) override {
    return beneath_.next_event(context, event);
  }
  ibv_pd* alloc_pd(ibv_context* context) override { return beneath_.alloc_pd(context); }
  int dealloc_pd(ibv_pd* pd) override { return beneath_.dealloc_pd(pd); }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override {
    return beneath_.reg_mr(pd, address, bytes, access);
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const DmaBufferRange& range, int access) override {
    return beneath_.reg_dmabuf_mr(pd, range, access);
  }
  bool has_peer_memory(ibv_context* context) override { return beneath_.has_peer_memory(context); }
  int dereg_mr(ibv_mr* mr) override { return beneath_.dereg_mr(mr); }
  ibv_comp_channel* create_channel(ibv_context* context) override {
    return beneath_.create_channel(context);
  }
  int destroy_channel(ibv_comp_channel* channel) override {
    return beneath_.destroy_channel(channel);
  }
  bool next_completion_event(ibv_comp_channel* channel) override {
    return beneath_.next_completion_event(channel);
  }
  ibv_cq* create_reporting_cq(ibv_comp_channel* channel, int entries) override {
    return beneath_.create_reporting_cq(channel, entries);
  }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    return beneath_.create_cq(context, entries);
  }
  int destroy_cq(ibv_cq* cq) override { return beneath_.destroy_cq(cq); }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    return beneath_.create_qp(pd, attr);
  }
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override {
    return beneath_.modify_qp(qp, attr, mask);
  }
  int destroy_qp(ibv_qp* qp) override { return beneath_.destroy_qp(qp); }
  int query_ece(ibv_qp* qp, ibv_ece* ece) override { return beneath_.query_ece(qp, ece); }
  int set_ece(ibv_qp* qp, ibv_ece* ece) override { return beneath_.set_ece(qp, ece); }

 private:
  Provider& beneath_;
};

}  // namespace mesh::verbs
