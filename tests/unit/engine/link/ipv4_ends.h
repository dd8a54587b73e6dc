#pragma once
// A provider whose net devices have IPv4 addresses only. Their datagrams are lost. Thread: one.

#include "src/base/unique_fd.h"
#include "src/verbs/forwarding_provider.h"
#include "tests/prelude.h"

#include <sys/eventfd.h>

namespace mesh::testkit {

class Ipv4End final : public verbs::CableDatagrams {
 public:
  verbs::DatagramPlace place() const noexcept override {
    return {.address = verbs::kIpv4Prefix, .port = 1};
  }
  int fd() const noexcept override { return fd_.get(); }
  void send(const verbs::DatagramPlace&, std::span<const std::byte>) noexcept override {}
  std::optional<verbs::CableDatagram> next() noexcept override { return std::nullopt; }

 private:
  UniqueFd fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

class Ipv4Provider final : public verbs::ForwardingProvider {
 public:
  using ForwardingProvider::ForwardingProvider;
  std::unique_ptr<verbs::CableDatagrams> open_datagrams(ibv_context* context,
                                                        const verbs::GidEntry& gid,
                                                        verbs::DatagramEnd end) override {
    if (end == verbs::DatagramEnd::Group)
      return ForwardingProvider::open_datagrams(context, gid, end);
    return std::make_unique<Ipv4End>();
  }
};

}  // namespace mesh::testkit
