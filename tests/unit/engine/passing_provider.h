#pragma once
// A provider that passes every call on to a host of the software fabric. A test overrides the few
// calls that it needs. Thread: any. Bounds: those of the host.

#include "src/soft/soft_provider.h"
#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mesh::testkit {

class PassingProvider : public verbs::Provider {
 public:
  explicit PassingProvider(std::unique_ptr<soft::SoftProvider> under) : under_(std::move(under)) {}

  soft::SoftProvider& under() noexcept { return *under_; }

  const char* fabric() const noexcept override { return under_->fabric(); }
  std::string host_name() const override { return under_->host_name(); }
  std::vector<verbs::DeviceEntry> devices() override { return under_->devices(); }
  ibv_context* open_device(const std::string& name) override { return under_->open_device(name); }
  int close_device(ibv_context* context) override { return under_->close_device(context); }
  int query_device(ibv_context* context, ibv_device_attr* attr) override {
    return under_->query_device(context, attr);
  }
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override {
    return under_->query_port(context, port, attr);
  }
  std::vector<verbs::GidEntry> gids(ibv_context* context, std::uint8_t port) override {
    return under_->gids(context, port);
  }
  int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* key) override {
    return under_->query_pkey(context, port, index, key);
  }
  std::uint32_t port_speed_mbps(ibv_context* context, std::uint8_t port) override {
    return under_->port_speed_mbps(context, port);
  }
  verbs::Route route(const verbs::GidEntry& from, const ibv_gid& to) override {
    return under_->route(from, to);
  }
  int event_fd(ibv_context* context) const noexcept override { return under_->event_fd(context); }
  bool next_event(ibv_context* context, verbs::DeviceEvent* event) override {
    return under_->next_event(context, event);
  }
  ibv_pd* alloc_pd(ibv_context* context) override { return under_->alloc_pd(context); }
  int dealloc_pd(ibv_pd* pd) override { return under_->dealloc_pd(pd); }
  ibv_mr* reg_mr(ibv_pd* pd, void* address_of, std::size_t bytes, int access) override {
    return under_->reg_mr(pd, address_of, bytes, access);
  }
  int dereg_mr(ibv_mr* mr) override { return under_->dereg_mr(mr); }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    return under_->create_cq(context, entries);
  }
  int destroy_cq(ibv_cq* cq) override { return under_->destroy_cq(cq); }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    return under_->create_qp(pd, attr);
  }
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override {
    return under_->modify_qp(qp, attr, mask);
  }
  int destroy_qp(ibv_qp* qp) override { return under_->destroy_qp(qp); }

 private:
  const std::unique_ptr<soft::SoftProvider> under_;
};

}  // namespace mesh::testkit
