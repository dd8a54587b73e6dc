#pragma once
// Two hosts of the contract suite whose queue pairs meet over a chain. The step to RTR makes the
// chain through the middle hosts, whose thread carries. To the suite it is a provider like any
// other. Thread: the test's. Bound: the fabric's.

#include "src/relay/end_device.h"
#include "src/relay/middle.h"
#include "tests/contract/endpoint_pair.h"
#include "tests/unit/relay/middle_hosts.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh::relay::testkit {

class RelayedProvider;

// The middle hosts of a test, shared by its two ends.
class RelayWorld {
 public:
  explicit RelayWorld(std::size_t middles);
  ~RelayWorld();
  RelayWorld(const RelayWorld&) = delete;
  RelayWorld& operator=(const RelayWorld&) = delete;

  const soft::FabricFile& fabric() const { return fabric_; }
  std::size_t middles() const { return hosts_.size(); }
  void join(std::size_t end, RelayedProvider* provider) { ends_[end] = provider; }

  // Makes a chain between the queue pair and the one at the other end that `attr` names, and
  // changes `attr` to name the chain's nearest queue pair. Leaves `attr` if it names none.
  void meet(std::size_t end, ibv_qp* qp, ibv_qp_attr* attr);
  void start(std::size_t end, std::uint32_t qp_num, const ibv_qp_attr& attr);
  void part(std::size_t end, std::uint32_t qp_num);

 private:
  struct Meet {
    Chains chains;
    bool started = false;
  };
  using Pair = std::pair<std::uint32_t, std::uint32_t>;  // queue pair numbers, left and right
  std::map<Pair, Meet>::iterator find(std::size_t end, std::uint32_t qp_num);
  bool make(const Pair& pair, const std::array<ibv_qp*, 2>& ends);

  soft::FabricFile fabric_;
  MiddleHosts hosts_;
  std::array<RelayedProvider*, 2> ends_{};
  std::map<Pair, Meet> meets_;
  std::unique_ptr<Middle> middle_;
};

class RelayedProvider final : public mesh::testkit::PassingProvider {
 public:
  RelayedProvider(std::shared_ptr<RelayWorld> world, std::size_t end);
  ~RelayedProvider() override { world_->join(end_, nullptr); }

  ibv_context* open_device(const std::string& name) override;
  int close_device(ibv_context* context) override;
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    return device_->create_cq(context, entries);
  }
  int destroy_cq(ibv_cq* cq) override { return device_->destroy_cq(cq); }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int destroy_qp(ibv_qp* qp) override;

  EndDevice& device() { return *device_; }
  ibv_qp* find(std::uint32_t qp_num) const;
  ibv_gid gid() const { return gid_; }

 private:
  const std::shared_ptr<RelayWorld> world_;
  const std::size_t end_;
  std::unique_ptr<EndDevice> device_;
  ibv_gid gid_{};
  std::map<std::uint32_t, ibv_qp*> queue_pairs_;
};

}  // namespace mesh::relay::testkit
