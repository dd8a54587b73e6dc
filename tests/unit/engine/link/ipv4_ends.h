#pragma once
// A provider whose net devices have no IPv6 address until `has_ipv6` is set. An end sees the change
// when it is refreshed, as with the kernel. Thread: one.

#include "src/verbs/forwarding_provider.h"
#include "tests/prelude.h"

namespace mesh::testkit {

class Ipv4Provider final : public verbs::ForwardingProvider {
 public:
  using ForwardingProvider::ForwardingProvider;
  std::unique_ptr<verbs::CableDatagrams> open_datagrams(ibv_context* context,
                                                        const verbs::GidEntry& gid,
                                                        verbs::DatagramEnd end) override {
    auto opened = ForwardingProvider::open_datagrams(context, gid, end);
    if (end == verbs::DatagramEnd::Group) return opened;
    return std::make_unique<End>(std::move(opened), has_ipv6);
  }
  bool has_ipv6 = false;

 private:
  class End final : public verbs::CableDatagrams {
   public:
    End(std::unique_ptr<verbs::CableDatagrams> beneath, const bool& has_ipv6)
        : beneath_(std::move(beneath)), has_ipv6_(has_ipv6) {
      End::refresh();
    }
    verbs::DatagramPlace place() const noexcept override { return place_; }
    bool refresh() override {
      place_ = beneath_->place();
      if (!has_ipv6_) place_.address = {};
      return beneath_->refresh();
    }
    int fd() const noexcept override { return beneath_->fd(); }
    void send(const verbs::DatagramPlace& to, std::span<const std::byte> bytes) noexcept override {
      beneath_->send(reached_from(place_, to), bytes);
    }
    std::optional<verbs::CableDatagram> next() noexcept override { return beneath_->next(); }

   private:
    const std::unique_ptr<verbs::CableDatagrams> beneath_;
    const bool& has_ipv6_;
    verbs::DatagramPlace place_;
  };
};

}  // namespace mesh::testkit
