#pragma once
// The hosts between two ends on a software fabric, all in this process: h1 to h<n> of a line whose
// ends are h0 and h<n + 1>. Makes chains through all of them and connects them. Thread: the test's.
// Bound: the fabric's.

#include "src/relay/chain.h"
#include "src/soft/soft_provider.h"
#include "src/verbs/handle.h"
#include "tests/prelude.h"
#include "tests/unit/relay/bring_up.h"

namespace mesh::relay::testkit {

// Makes a fabric of `middles` hosts between two ends. A NIC "right" leads to the next host, a NIC
// "left" to the one before. Each link has `link_fields`, such as ", \"gbps\": 100".
soft::FabricFile line_fabric(std::size_t middles, const std::string& link_fields = "");

std::unique_ptr<soft::SoftProvider> open_host(const soft::FabricFile& fabric, std::size_t index,
                                              soft::Agent agent);

// An opened NIC of a host of the line.
struct LineNic {
  verbs::Provider* provider = nullptr;
  verbs::ContextHandle context;
  verbs::PdHandle pd;
  verbs::GidEntry gid;
  Bell bell;
};
LineNic open_nic(verbs::Provider& provider, const std::string& name);

// An end of a chain, as its first or last middle host knows it.
struct Neighbour {
  ibv_gid gid{};
  std::uint32_t qp_num = 0;
  CountsTarget counts;
};

using Chains = std::vector<std::unique_ptr<Chain>>;  // from left to right

class MiddleHosts {
 public:
  MiddleHosts(const soft::FabricFile& fabric, std::size_t count, soft::Agent agent);

  // Makes a chain on each middle host. Returns the error if one is refused.
  Result<Chains> make(const RingShape& shape);
  // prepare() does everything but the step to RTS; start() does that step.
  bool prepare(const Chains& chains, const std::array<Neighbour, 2>& ends);
  bool start(const Chains& chains, const Meeting& timing);

  const ibv_gid& gid_towards(std::size_t end) const;  // the outermost middle host's NIC
  soft::SoftProvider& host(std::size_t index) { return *hosts_[index]; }
  std::size_t size() const { return hosts_.size(); }
  void turn();

 private:
  bool prepare_side(const Chains& chains, std::size_t at, Side side, const Neighbour& end);

  std::vector<std::unique_ptr<soft::SoftProvider>> hosts_;
  std::deque<std::array<LineNic, 2>> nics_;  // by side
  std::deque<std::array<RailShare, 2>> shares_;
};

}  // namespace mesh::relay::testkit
