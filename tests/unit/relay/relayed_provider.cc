#include "tests/unit/relay/relayed_provider.h"

#include "tests/prelude.h"

namespace mesh::relay::testkit {
namespace {
// The suite writes up to 1 MiB at once, and asks for 16 work requests.
constexpr RingShape kShape{.slots = 16, .payload_bytes = 4 << 20, .wr_bytes = 1 << 20};
constexpr std::uint32_t kSuiteElements = 4;  // the suite's request

bool same(const ibv_gid& a, const ibv_gid& b) {
  return std::memcmp(a.raw, b.raw, sizeof a.raw) == 0;
}
}  // namespace

RelayWorld::RelayWorld(std::size_t middles)
    : fabric_(line_fabric(middles)),
      hosts_(fabric_, middles, soft::Agent::None),
      middle_(std::make_unique<Middle>()) {
  EXPECT_TRUE(middle_->start().ok());
}

RelayWorld::~RelayWorld() { middle_.reset(); }

std::map<RelayWorld::Pair, RelayWorld::Meet>::iterator RelayWorld::find(std::size_t end,
                                                                        std::uint32_t qp_num) {
  return std::find_if(meets_.begin(), meets_.end(), [&](const auto& meet) {
    return (end == 0 ? meet.first.first : meet.first.second) == qp_num;
  });
}

bool RelayWorld::make(const Pair& pair, const std::array<ibv_qp*, 2>& ends) {
  Result<Chains> made = hosts_.make(kShape);
  if (!made.ok()) return false;
  Chains& chains = *made;
  std::array<Neighbour, 2> neighbours;
  for (std::size_t i = 0; i < 2; ++i) {
    EndDevice& device = ends_[i]->device();
    neighbours[i] = {
        .gid = ends_[i]->gid(), .qp_num = ends[i]->qp_num, .counts = device.counts(ends[i])};
    Chain& next = i == 0 ? *chains.front() : *chains.back();
    if (!device.set_ring(ends[i], next.ring(i == 0 ? Side::Left : Side::Right)).ok()) return false;
  }
  if (!hosts_.prepare(chains, neighbours)) return false;
  meets_[pair].chains = std::move(chains);
  return true;
}

void RelayWorld::meet(std::size_t end, ibv_qp* qp, ibv_qp_attr* attr) {
  RelayedProvider* const other = ends_[1 - end];
  if (other == nullptr || !same(attr->ah_attr.grh.dgid, other->gid())) return;
  ibv_qp* const peer = other->find(attr->dest_qp_num);
  if (peer == nullptr) return;
  const std::array<ibv_qp*, 2> ends = end == 0 ? std::array{qp, peer} : std::array{peer, qp};
  const Pair pair{ends[0]->qp_num, ends[1]->qp_num};
  if (!meets_.contains(pair) && !make(pair, ends)) return;
  const Chains& chains = meets_[pair].chains;
  attr->ah_attr.grh.dgid = hosts_.gid_towards(end);
  attr->dest_qp_num =
      (end == 0 ? chains.front()->qp(Side::Left) : chains.back()->qp(Side::Right))->qp_num;
}

// The first end to reach RTS starts the middle hosts, with its own time-out and retry counts.
void RelayWorld::start(std::size_t end, std::uint32_t qp_num, const ibv_qp_attr& attr) {
  const auto meet = find(end, qp_num);
  if (meet == meets_.end() || std::exchange(meet->second.started, true)) return;
  EXPECT_TRUE(hosts_.start(
      meet->second.chains,
      {.timeout = attr.timeout, .retry_count = attr.retry_cnt, .rnr_retry = attr.rnr_retry}));
  for (const auto& chain : meet->second.chains) EXPECT_TRUE(middle_->add(*chain).ok());
}

void RelayWorld::part(std::size_t end, std::uint32_t qp_num) {
  const auto meet = find(end, qp_num);
  if (meet == meets_.end()) return;
  for (const auto& chain : meet->second.chains) middle_->remove(*chain);
  meets_.erase(meet);
}

RelayedProvider::RelayedProvider(std::shared_ptr<RelayWorld> world, std::size_t end)
    : PassingProvider(
          open_host(world->fabric(), end == 0 ? 0 : world->middles() + 1, soft::Agent::None)),
      world_(std::move(world)),
      end_(end) {
  world_->join(end, this);
}

ibv_context* RelayedProvider::open_device(const std::string& name) {
  ibv_context* const context = PassingProvider::open_device(name);
  if (context == nullptr) return nullptr;
  device_ = std::make_unique<EndDevice>(under(), context);
  gid_ = gids(context, 1).back().gid;
  return context;
}

int RelayedProvider::close_device(ibv_context* context) {
  device_.reset();
  return PassingProvider::close_device(context);
}

// The suite asks for more elements than most of its tests use.
ibv_qp* RelayedProvider::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (attr->cap.max_send_sge <= kSuiteElements) attr->cap.max_send_sge = 1;
  ibv_qp* const qp = device_->create_qp(pd, attr);
  if (qp != nullptr) queue_pairs_[qp->qp_num] = qp;
  return qp;
}

ibv_qp* RelayedProvider::find(std::uint32_t qp_num) const {
  const auto found = queue_pairs_.find(qp_num);
  return found == queue_pairs_.end() ? nullptr : found->second;
}

int RelayedProvider::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  const bool to_state = (mask & IBV_QP_STATE) != 0;
  ibv_qp_attr changed = *attr;
  if (to_state && attr->qp_state == IBV_QPS_RTR) world_->meet(end_, qp, &changed);
  const int error = device_->modify_qp(qp, &changed, mask);
  if (error != 0 || !to_state) return error;
  if (attr->qp_state == IBV_QPS_RTS) world_->start(end_, qp->qp_num, *attr);
  if (attr->qp_state == IBV_QPS_RESET) world_->part(end_, qp->qp_num);
  return 0;
}

int RelayedProvider::destroy_qp(ibv_qp* qp) {
  const std::uint32_t qp_num = qp->qp_num;
  queue_pairs_.erase(qp_num);
  const int error = device_->destroy_qp(qp);
  world_->part(end_, qp_num);
  return error;
}

}  // namespace mesh::relay::testkit
