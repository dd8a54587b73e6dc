#include "tests/unit/relay/middle_hosts.h"

#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::relay::testkit {
namespace {

std::string nic_text(const std::string& name, std::size_t cable, int side) {
  return fmt::format(R"({{"name": "{}", "address": "10.0.{}.{}/24"}})", name, cable + 1, side);
}

constexpr std::size_t index_of(Side side) { return static_cast<std::size_t>(side); }

}  // namespace

soft::FabricFile line_fabric(std::size_t middles, const std::string& link_fields) {
  static std::atomic<int> made{0};  // gives each fabric its own name
  const std::size_t hosts = middles + 2;
  std::string text = fmt::format(R"({{"name": "line{}", "hosts": [)", made.fetch_add(1));
  std::string links = R"("links": [)";
  for (std::size_t i = 0; i < hosts; ++i) {
    std::string nics = i == 0 ? "" : nic_text("left", i - 1, 2);
    if (i > 0 && i + 1 < hosts) nics += ", ";
    if (i + 1 < hosts) nics += nic_text("right", i, 1);
    text += fmt::format(R"({}{{"name": "h{}", "nics": [{}]}})", i == 0 ? "" : ", ", i, nics);
    if (i + 1 < hosts) {
      links += fmt::format(R"({}{{"ends": ["h{}/right", "h{}/left"]{}}})", i == 0 ? "" : ", ", i,
                           i + 1, link_fields);
    }
  }
  const Result<soft::FabricFile> fabric = soft::parse(text + "], " + links + "]}");
  EXPECT_TRUE(fabric.ok());
  return *fabric;
}

std::unique_ptr<soft::SoftProvider> open_host(const soft::FabricFile& fabric, std::size_t index,
                                              soft::Agent agent) {
  return mesh::testkit::open_host(
      {.fabric = fabric, .host = fmt::format("h{}", index), .agent = agent, .clock = Clock()});
}

LineNic open_nic(verbs::Provider& provider, const std::string& name) {
  LineNic nic;
  nic.provider = &provider;
  nic.context = verbs::ContextHandle(provider, provider.open_device(name));
  nic.pd = verbs::PdHandle(provider, provider.alloc_pd(nic.context.get()));
  nic.gid = provider.gids(nic.context.get(), 1).back();
  return nic;
}

MiddleHosts::MiddleHosts(const soft::FabricFile& fabric, std::size_t count, soft::Agent agent) {
  for (std::size_t i = 0; i < count; ++i) {
    hosts_.push_back(open_host(fabric, i + 1, agent));
    shares_.emplace_back();
    std::array<LineNic, 2>& nics = nics_.emplace_back();
    nics[0] = open_nic(*hosts_[i], "left");
    nics[1] = open_nic(*hosts_[i], "right");
    for (LineNic& nic : nics) nic.bell = Bell(*nic.provider, nic.context.get());
  }
}

Result<Chains> MiddleHosts::make(const RingShape& shape) {
  Chains chains;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    ChainOptions options;
    for (std::size_t side = 0; side < 2; ++side) {
      LineNic& nic = nics_[i][side];
      options.rails[side] = {.provider = nic.provider,
                             .context = nic.context.get(),
                             .pd = nic.pd.get(),
                             .share = &shares_[i][side],
                             .bell = &nics_[i][side].bell};
      options.rings[side] = shape;
    }
    Result<std::unique_ptr<Chain>> chain = Chain::create(options);
    if (!chain.ok()) return chain.status();
    chains.push_back(std::move(*chain));
  }
  return chains;
}

// The neighbour is the end, or the middle host before or after this one.
bool MiddleHosts::prepare_side(const Chains& chains, std::size_t at, Side side,
                               const Neighbour& end) {
  Chain& chain = *chains[at];
  const bool outermost = side == Side::Left ? at == 0 : at + 1 == chains.size();
  Neighbour neighbour = end;
  if (!outermost) {
    const std::size_t next = side == Side::Left ? at - 1 : at + 1;
    const Chain& peer = *chains[next];
    neighbour = {.gid = nics_[next][index_of(other(side))].gid.gid,
                 .qp_num = peer.qp(other(side))->qp_num,
                 .counts = peer.counts(other(side))};
    if (!chain.set_next_ring(side, peer.ring(other(side))).ok()) return false;
  }
  chain.set_counts(side, neighbour.counts);
  const Meeting meeting{
      .own = nics_[at][index_of(side)].gid, .peer = neighbour.gid, .peer_qp_num = neighbour.qp_num};
  return to_init(*hosts_[at], chain.qp(side)) == 0 && chain.fill_receive_queue(side).ok() &&
         to_rtr(*hosts_[at], chain.qp(side), meeting) == 0;
}

bool MiddleHosts::prepare(const Chains& chains, const std::array<Neighbour, 2>& ends) {
  for (std::size_t i = 0; i < chains.size(); ++i) {
    for (const Side side : kSides) {
      if (!prepare_side(chains, i, side, ends[index_of(side)])) return false;
    }
  }
  return true;
}

bool MiddleHosts::start(const Chains& chains, const Meeting& timing) {
  for (std::size_t i = 0; i < chains.size(); ++i) {
    for (const Side side : kSides) {
      if (to_rts(*hosts_[i], chains[i]->qp(side), timing) != 0) return false;
    }
  }
  return true;
}

const ibv_gid& MiddleHosts::gid_towards(std::size_t end) const {
  return end == 0 ? nics_.front()[0].gid.gid : nics_.back()[1].gid.gid;
}

void MiddleHosts::turn() {
  for (const auto& host : hosts_) host->turn();
}

}  // namespace mesh::relay::testkit
