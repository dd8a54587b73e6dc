#pragma once
// A provider that hands every call to another one, counts the objects that are alive, so that
// nothing can leak unseen, and knows which memory is registered. The data path does not pass here.

#include "src/verbs/provider.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace mesh::sim {

class CountingProvider final : public verbs::Provider {
 public:
  explicit CountingProvider(verbs::Provider& below) : below_(below) {}

  struct Alive {
    std::int64_t devices = 0, pds = 0, mrs = 0, cqs = 0, qps = 0;
  };
  const Alive& alive() const noexcept { return alive_; }
  // Returns whether any memory region names a byte of the memory.
  bool registers(std::span<const std::byte> memory) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&memory](const auto& entry) {
      const std::span<const std::byte> range = entry.second;
      return range.data() < memory.data() + memory.size() &&
             memory.data() < range.data() + range.size();
    });
  }

  const char* fabric() const noexcept override { return below_.fabric(); }
  std::string host_name() const override { return below_.host_name(); }
  std::vector<verbs::DeviceEntry> devices() override { return below_.devices(); }
  ibv_context* open_device(const std::string& name) override {
    return born(below_.open_device(name), alive_.devices);
  }
  int close_device(ibv_context* context) override {
    return dead(below_.close_device(context), alive_.devices);
  }
  int query_device(ibv_context* context, ibv_device_attr* attr) override {
    return below_.query_device(context, attr);
  }
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override {
    return below_.query_port(context, port, attr);
  }
  std::vector<verbs::GidEntry> gids(ibv_context* context, std::uint8_t port) override {
    return below_.gids(context, port);
  }
  int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* key) override {
    return below_.query_pkey(context, port, index, key);
  }
  std::uint32_t port_speed_mbps(ibv_context* context, std::uint8_t port) override {
    return below_.port_speed_mbps(context, port);
  }
  int query_ece(ibv_qp* qp, ibv_ece* ece) override { return below_.query_ece(qp, ece); }
  int set_ece(ibv_qp* qp, ibv_ece* ece) override { return below_.set_ece(qp, ece); }
  verbs::Route route(const verbs::GidEntry& from, const ibv_gid& to) override {
    return below_.route(from, to);
  }
  int event_fd(ibv_context* context) const noexcept override { return below_.event_fd(context); }
  bool next_event(ibv_context* context, verbs::DeviceEvent* event) override {
    return below_.next_event(context, event);
  }
  ibv_pd* alloc_pd(ibv_context* context) override {
    return born(below_.alloc_pd(context), alive_.pds);
  }
  int dealloc_pd(ibv_pd* pd) override { return dead(below_.dealloc_pd(pd), alive_.pds); }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override {
    ibv_mr* const mr = born(below_.reg_mr(pd, address, bytes, access), alive_.mrs);
    if (mr != nullptr) ranges_[mr] = {static_cast<const std::byte*>(address), bytes};
    return mr;
  }
  bool has_peer_memory(ibv_context* context) override { return below_.has_peer_memory(context); }
  int dereg_mr(ibv_mr* mr) override {
    const int error = dead(below_.dereg_mr(mr), alive_.mrs);
    if (error == 0) ranges_.erase(mr);
    return error;
  }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    return born(below_.create_cq(context, entries), alive_.cqs);
  }
  int destroy_cq(ibv_cq* cq) override { return dead(below_.destroy_cq(cq), alive_.cqs); }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    return born(below_.create_qp(pd, attr), alive_.qps);
  }
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override {
    return below_.modify_qp(qp, attr, mask);
  }
  int destroy_qp(ibv_qp* qp) override { return dead(below_.destroy_qp(qp), alive_.qps); }

 private:
  template <typename Object>
  static Object* born(Object* object, std::int64_t& count) {
    if (object != nullptr) ++count;
    return object;
  }
  static int dead(int error, std::int64_t& count) {
    if (error == 0) --count;
    return error;
  }

  verbs::Provider& below_;
  Alive alive_;
  std::map<const ibv_mr*, std::span<const std::byte>> ranges_;
};

}  // namespace mesh::sim
