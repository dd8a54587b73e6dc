#pragma once
// A provider that gives every memory region keys of its own and knows the regions that are alive.
// Thread: one.

#include "tests/prelude.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::testkit {

class RegionProvider : public verbs::testkit::FakeProvider {
 public:
  ibv_mr* reg_mr(ibv_pd*, void* address, std::size_t bytes, int access) override {
    by_address = true;
    return add({.bytes = bytes, .address = reinterpret_cast<std::uint64_t>(address)}, access);
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd*, const verbs::DmaBufferRange& range, int access) override {
    return add(range, access);
  }
  int dereg_mr(ibv_mr* mr) override {
    if (deregistering) deregistering();
    const bool known = live.erase(mr) == 1;
    if (known) delete mr;
    return known ? 0 : EINVAL;
  }

  int query_port(ibv_context*, std::uint8_t, ibv_port_attr* attr) override {
    *attr = {};
    return card_left ? EIO : 0;
  }

  bool card_left = false;
  std::function<void()> deregistering;  // called before a region goes
  std::set<ibv_mr*> live;
  int refuse_after = -1;  // so many more registrations succeed; negative: all
  int refusal = ENOMEM;
  int last_access = 0;
  verbs::DmaBufferRange last;
  bool by_address = false;  // something was registered by its address

 private:
  ibv_mr* add(const verbs::DmaBufferRange& range, int access) {
    last = range;
    last_access = access;
    if (refuse_after == 0) return errno = refusal, nullptr;
    --refuse_after;
    auto* const mr = new ibv_mr{};
    mr->lkey = ++last_key_;
    mr->rkey = last_key_ + 1000;
    live.insert(mr);
    return mr;
  }

  std::uint32_t last_key_ = 0;
};

}  // namespace mesh::testkit
