#pragma once
// A host of the software fabric that counts the objects that are alive, so that nothing can leak
// unseen, and knows which memory is registered. What was made on a card that has left is gone, too.
// The data path does not pass here.

#include "tests/unit/soft/passing_provider.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace mesh::sim {

class CountingProvider final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;

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

  ibv_context* open_device(const std::string& name) override {
    return born(PassingProvider::open_device(name), alive_.devices);
  }
  int close_device(ibv_context* context) override {
    return dead(PassingProvider::close_device(context), alive_.devices);
  }
  ibv_pd* alloc_pd(ibv_context* context) override {
    return born(PassingProvider::alloc_pd(context), alive_.pds);
  }
  int dealloc_pd(ibv_pd* pd) override { return dead(PassingProvider::dealloc_pd(pd), alive_.pds); }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override {
    ibv_mr* const mr = born(PassingProvider::reg_mr(pd, address, bytes, access), alive_.mrs);
    if (mr != nullptr) ranges_[mr] = {static_cast<const std::byte*>(address), bytes};
    return mr;
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const verbs::DmaBufferRange& range, int access) override {
    return born(PassingProvider::reg_dmabuf_mr(pd, range, access), alive_.mrs);
  }
  int dereg_mr(ibv_mr* mr) override {
    const int error = dead(PassingProvider::dereg_mr(mr), alive_.mrs);
    if (is_gone(error)) ranges_.erase(mr);
    return error;
  }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    return born(PassingProvider::create_cq(context, entries), alive_.cqs);
  }
  int destroy_cq(ibv_cq* cq) override { return dead(PassingProvider::destroy_cq(cq), alive_.cqs); }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    return born(PassingProvider::create_qp(pd, attr), alive_.qps);
  }
  int destroy_qp(ibv_qp* qp) override { return dead(PassingProvider::destroy_qp(qp), alive_.qps); }

 private:
  template <typename Object>
  static Object* born(Object* object, std::int64_t& count) {
    if (object != nullptr) ++count;
    return object;
  }
  static bool is_gone(int error) noexcept { return error == 0 || error == EIO; }
  static int dead(int error, std::int64_t& count) {
    if (is_gone(error)) --count;
    return error;
  }

  Alive alive_;
  std::map<const ibv_mr*, std::span<const std::byte>> ranges_;
};

}  // namespace mesh::sim
