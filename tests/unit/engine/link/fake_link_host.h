#pragma once
// A host of links without an engine: the parts that no test looks at. The clock, the rails and the
// control plane are those of the class that derives from it. Thread: one. Bound: none of its own.

#include "engine/link/link_host.h"
#include "tests/unit/engine/data/nobody.h"

namespace mesh::testkit {

class FakeLinkHost : public engine::LinkHost {
 public:
  const EngineOptions& options() const noexcept override { return settled; }
  void tend_at(std::uint64_t) noexcept override {}
  void tend_soon() noexcept override {}
  LogBudget& unauthenticated_lines() noexcept override { return budget; }
  engine::LinkCounts& counts() noexcept override { return counted; }
  engine::LinkIndex& index() noexcept override { return found_by; }
  engine::ChannelOwner& channel_owner() noexcept override { return owner_; }
  engine::ControlWaker& waker() noexcept override { return waker_; }
  ThreadPool& thread_pool() noexcept override { return pool_; }
  void keep_figures(const engine::Link&) noexcept override {}
  const engine::Id128& ticket() const noexcept override { return own_ticket; }

  EngineOptions settled;
  LogBudget budget;
  engine::LinkCounts counted;
  engine::LinkIndex found_by;
  engine::Id128 own_ticket{};

 protected:
  ~FakeLinkHost() = default;

 private:
  NoOwner owner_;
  NoWaker waker_;
  ThreadPool pool_{"mesh-bring-up"};
};

}  // namespace mesh::testkit
