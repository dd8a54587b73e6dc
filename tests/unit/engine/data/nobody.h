#pragma once
// Stand-ins for objects that a tested object refers to but never needs.
// Thread: any.

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"

namespace mesh::testkit {

class NoWaker : public engine::ControlWaker {
 public:
  void wake_control() noexcept override {}
};

class NoOwner : public engine::ChannelOwner {
 public:
  Result<Registration*> register_memory(Channel&, const MemoryRange&) override {
    return Errc::Internal;
  }
  void deregister_memory(Channel&, Registration&) noexcept override {}
  void close_channel(Channel&) noexcept override {}
  engine::PeerLog& peer_log() noexcept override { return log_; }

 private:
  engine::PeerLog log_{"a"};
};

}  // namespace mesh::testkit
