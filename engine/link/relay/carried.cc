#include "engine/link/relay/carried.h"

#include "engine/link/link_setup.h"
#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/thread_pool.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace mesh::engine {

namespace {
constexpr std::uint32_t kExpressRingBytes = 512u << 10;
// The room in units of the longest work request: one arrives and one leaves while two wait.
constexpr std::uint64_t kLongestInRing = 4;
static_assert(kLongestInRing * kCarriedWrBytesMax <= relay::kPayloadBytesMax);

std::uint32_t rounded(std::uint64_t bytes) {
  const std::uint64_t most = relay::kPayloadBytesMax;
  const std::uint64_t units = (bytes + relay::kPayloadUnit - 1) / relay::kPayloadUnit;
  return static_cast<std::uint32_t>(std::min(units * relay::kPayloadUnit, most));
}

constexpr std::size_t at(relay::Side side) { return static_cast<std::size_t>(side); }
}  // namespace

std::array<relay::RingShape, 2> ring_shapes(const ChainSizes& sizes, std::uint32_t queue_pair) {
  const bool express = queue_pair == 0;
  const std::uint64_t longest = std::max<std::uint64_t>(
      express ? std::max<std::uint64_t>(sizes.express_bytes, 4096) : sizes.wr_bytes,
      relay::kSlotPayloadBytes);
  const std::uint64_t payload =
      express ? std::max<std::uint64_t>(kExpressRingBytes, 2 * longest) : kLongestInRing * longest;
  return {relay::RingShape{.slots = sizes.sq_depth,
                           .payload_bytes = rounded(payload),
                           .wr_bytes = static_cast<std::uint32_t>(longest)},
          relay::RingShape{
              .slots = sizes.sq_depth, .payload_bytes = 0, .wr_bytes = relay::kSlotPayloadBytes}};
}

Carried::Carried(LinkHost& host, ConnectionId connection, const Chain& order,
                 const std::array<relay::RailShare*, 2>& shares)
    : host_(host),
      connection_(connection),
      order_(order),
      psn_(random_psn()),
      settings_(host.options().settings) {
  settings_.traffic_class = order.traffic_class;
  settings_.service_level = order.service_level;
  for (const relay::Side side : {relay::Side::Left, relay::Side::Right}) {
    const verbs::Rail& rail =
        host.rails()[side == relay::Side::Left ? order.near_rail : order.far_rail];
    uses_[at(side)] = {.provider = host.options().provider, .share = shares[at(side)]};
    names_[at(side)] = fmt::format("relay over {}", rail.info.name);
  }
}

Carried::~Carried() {
  abandon();
  task_.wait();
}

template <typename Work>
void Carried::begin(Work work) {
  CHECK(!under_way_);
  over_.store(false, std::memory_order_relaxed);
  task_.wait();  // that of the last step, which is over
  const auto run = [this, work = std::move(work)] {
    try {
      work();
    } catch (const std::exception& error) {
      why_ = error.what();
    }
    over_.store(true, std::memory_order_release);
  };
  // Nothing below may throw: a step that could not begin must not look as if it ran.
  Status started = Errc::System;
  if (host_.options().threading != Threading::Manual) {
    started = host_.thread_pool().begin(task_, [this, run] {
      run();
      host_.waker().wake_control();
    });
  }
  under_way_ = true;
  if (started.ok()) return;
  const WaitsUnderLocks no_thread;
  run();
}

bool Carried::take_over() noexcept {
  if (!under_way_ || running()) return false;
  under_way_ = false;
  return true;
}

void Carried::part(std::uint64_t by_ns) noexcept {
  CHECK(step_ == Step::Carrying);
  parts_by_ns_ = by_ns;
  for (const auto& chain : chains_) chain->close(IBV_WC_RETRY_EXC_ERR);
}

bool Carried::parted() const noexcept {
  return std::all_of(chains_.begin(), chains_.end(),
                     [](const auto& chain) { return chain->state() == relay::ChainState::Gone; });
}

bool Carried::destroy() noexcept {
  if (running()) return false;
  if (chains_.empty() && !devices_[0] && !devices_[1]) return true;
  step_ = Step::Destroying;
  take_over();
  begin([this] {
    chains_.clear();
    for (relay::Bell& bell : bells_) bell = {};
    for (verbs::PdHandle& domain : domains_) domain.reset();
    for (verbs::OpenDevice::Hold& device : devices_) device.reset();
  });
  return !running();
}

void Carried::make() {
  CHECK(step_ == Step::Waiting);
  step_ = Step::Making;
  begin([this] { make_all(); });
}

bool Carried::make_domains() {
  for (const relay::Side side : relay::kSides) {
    relay::RailUse& use = uses_[at(side)];
    devices_[at(side)] = rail(side).context.hold();
    use.context = devices_[at(side)].get();
    domains_[at(side)] = verbs::PdHandle(*use.provider, use.provider->alloc_pd(use.context));
    use.pd = domains_[at(side)].get();
    // Without a thread of the chains there is nobody to wake.
    if (use.context == nullptr || host_.options().threading == Threading::Manual) continue;
    bells_[at(side)] = relay::Bell(*use.provider, use.context);
    use.bell = &bells_[at(side)];
  }
  return uses_[0].pd != nullptr && uses_[1].pd != nullptr;
}

void Carried::make_all() {
  if (!make_domains()) {
    why_ = "its device cannot create a protection domain";
    return;
  }
  for (std::uint32_t i = 0; i < order_.sizes.qps && !abandoned_.load(std::memory_order_relaxed);
       ++i) {
    Result<std::unique_ptr<relay::Chain>> made =
        relay::Chain::create({.rails = uses_, .rings = ring_shapes(order_.sizes, i)});
    if (!made.ok()) {
      why_ = "it cannot create the queue pairs or allocate the rings";
      return;
    }
    chains_.push_back(std::move(*made));
  }
}

std::uint64_t Carried::ring_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < order_.sizes.qps; ++i) {
    for (const relay::RingShape& shape : ring_shapes(order_.sizes, i))
      bytes += std::uint64_t{shape.slots} * relay::kSlotBytes + shape.payload_bytes;
  }
  return bytes;
}

const std::string& Carried::rail_name(relay::Side side) const noexcept {
  return rail(side).info.name;
}

std::string Carried::port_down() const {
  for (const std::uint8_t index : {order_.near_rail, order_.far_rail}) {
    const verbs::Rail& rail = host_.rails()[index];
    if (!verbs::port_is_up(*host_.options().provider, rail)) return rail.info.name;
  }
  return {};
}

const verbs::Rail& Carried::rail(relay::Side side) const noexcept {
  return host_.rails()[side == relay::Side::Left ? order_.near_rail : order_.far_rail];
}

void Carried::look_at_port(relay::Side side) const {
  verbs::look_at_port(*host_.options().provider, rail(side));
}

PortEnd Carried::port(relay::Side side) const {
  const bool near = side == relay::Side::Left;
  const verbs::Rail& rail = this->rail(side);
  const std::size_t address = near ? order_.near_address : order_.far_address;
  return {.provider = *host_.options().provider,
          .rail = rail,
          .address = address,
          .gid_index = verbs::gid_index_now(*host_.options().provider, rail, address).value_or(-1),
          .settings = settings_,
          .name = names_[at(side)]};
}

WireHop Carried::end(relay::Side side) {
  const PortEnd own = port(side);
  WireHop hop{.address = describe_rail(own.rail).addresses[own.address],
              .lid = verbs::current_lid(own.provider, own.rail).value_or(own.rail.lid),
              .mtu = static_cast<std::uint8_t>(verbs::port_now(own.provider, own.rail).mtu),
              .psn = psn_};
  for (const auto& chain : chains_) {
    hop.qps.push_back(
        {.qpn = chain->qp(side)->qp_num, .counts = chain->counts(side), .ring = chain->ring(side)});
  }
  return hop;
}

std::vector<WireHop> Carried::ends() { return {end(relay::Side::Left), end(relay::Side::Right)}; }

void Carried::join(const Join& body) {
  CHECK(step_ == Step::Made);
  step_ = Step::Joining;
  begin([this, body] { join_all(body); });
}

void Carried::join_all(const Join& body) {
  for (const relay::Side side : {relay::Side::Left, relay::Side::Right}) {
    const WireHop& neighbour = side == relay::Side::Left ? body.near : body.far;
    look_at_port(side);
    const PortEnd own = port(side);
    if (own.gid_index < 0) {
      why_ = fmt::format("{}: its port has lost its address", names_[at(side)]);
      return;
    }
    if (raise(side, own, neighbour).ok()) continue;
    why_ = fmt::format("{}: the neighbour cannot be reached", names_[at(side)]);
    return;
  }
}

Status Carried::raise(relay::Side side, const PortEnd& own, const WireHop& neighbour) {
  FarEnd far{.gid = gid_of(neighbour.address),
             .lid = neighbour.lid,
             .psn = neighbour.psn,
             .mtu = static_cast<ibv_mtu>(
                 std::min<int>(neighbour.mtu, verbs::port_now(own.provider, own.rail).mtu))};
  ResolveTries tries{.abandoned = &abandoned_, .level = LogLevel::Detail};  // its end says it
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    relay::Chain& chain = *chains_[i];
    ibv_qp* const qp = chain.qp(side);
    chain.set_counts(side, neighbour.qps[i].counts);
    Status status;
    if (neighbour.qps[i].ring.slots != 0) status = chain.set_next_ring(side, neighbour.qps[i].ring);
    if (status.ok()) status = to_init(own, qp);
    if (status.ok()) status = chain.fill_receive_queue(side);
    far.qpn = neighbour.qps[i].qpn;
    if (status.ok()) status = to_rtr(own, qp, far, tries);
    if (status.ok()) status = to_rts(own, qp, psn_);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace mesh::engine
