#include "src/verbs/port_view.h"

#include "src/base/held_locks.h"
#include "src/verbs/discovery.h"
#include "src/verbs/gid_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

namespace mesh::verbs {

namespace {

// Reads a field that rdma-core's headers got with XDR, whose code does not fit the old 8 bits.
template <typename PortAttr>
std::uint32_t active_speed(const PortAttr& attr) noexcept {
  if constexpr (requires { attr.active_speed_ex; }) {
    if (attr.active_speed_ex != 0) return attr.active_speed_ex;
  }
  return attr.active_speed;
}

// A rail, and its device, which stays open meanwhile.
struct Asked {
  explicit Asked(const Rail& asked) : rail(asked), device(asked.context.hold()) {}
  const Rail& rail;
  const OpenDevice::Hold device;
  int port(Provider& provider, ibv_port_attr* attr) const {
    return provider.query_port(device.get(), rail.info.port, attr);
  }
};

PortNow port_told(Provider& provider, const Asked& asked, const ibv_port_attr& attr, int error) {
  const Rail& rail = asked.rail;
  PortNow now{.mtu = rail.active_mtu, .speed_mbps = rail.info.speed_mbps};
  now.card_left = error == EIO || error == ENODEV || error == ENXIO;
  if (error != 0) return now;
  now.state = attr.state;
  now.up = attr.state == IBV_PORT_ACTIVE;
  if (!now.up) return now;
  now.mtu = mtu_of(attr);
  now.speed_mbps = speed_of(provider, asked.device.get(), rail.info.port, attr);
  return now;
}

std::optional<int> index_among(std::vector<GidEntry> alike, const GidEntry& known) {
  std::erase_if(alike, [&known](const GidEntry& each) {
    return std::memcmp(each.gid.raw, known.gid.raw, sizeof known.gid.raw) != 0 ||
           each.type != known.type;
  });
  if (alike.empty()) return std::nullopt;
  // Two net devices may have one address, such as a link-local one: the known one goes first.
  const auto fit = [&known](const GidEntry& each) {
    return std::tuple(each.index != known.index, each.netdev != known.netdev, each.index);
  };
  return std::min_element(alike.begin(), alike.end(),
                          [&fit](const auto& a, const auto& b) { return fit(a) < fit(b); })
      ->index;
}

std::vector<GidEntry> ask_gids(Provider& provider, const Asked& asked) {
  return provider.gids(asked.device.get(), static_cast<std::uint8_t>(asked.rail.info.port));
}

}  // namespace

PortNow PortView::port() const noexcept {
  wished_.store(true, std::memory_order_relaxed);
  const std::lock_guard guard(mutex_);
  return seen_.port;
}

bool PortView::card_left() const noexcept {
  const std::lock_guard guard(mutex_);
  return seen_.port.card_left;
}

std::optional<std::uint16_t> PortView::lid() const noexcept {
  wished_.store(true, std::memory_order_relaxed);
  const std::lock_guard guard(mutex_);
  return seen_.lid;
}

std::optional<int> PortView::gid_index(std::size_t address) const noexcept {
  wished_.store(true, std::memory_order_relaxed);
  const std::lock_guard guard(mutex_);
  return seen_.gid_indices[address];
}

void PortView::set(Seen seen) noexcept {
  const std::lock_guard guard(mutex_);
  std::swap(seen_, seen);
}

void PortView::note_down() noexcept {
  const std::lock_guard guard(mutex_);
  seen_.port.up = false;
  seen_.port.state = IBV_PORT_DOWN;
}

void PortView::note_card_left() noexcept {
  const std::lock_guard guard(mutex_);
  seen_.port.up = false;
  seen_.port.state = IBV_PORT_NOP;
  seen_.port.card_left = true;
}

void look_at_port(Provider& provider, const Rail& rail) {
  if (rail.view == nullptr) return;
  ibv_port_attr attr{};
  const Asked asked(rail);
  const int error = asked.port(provider, &attr);
  PortView::Seen seen{
      .port = port_told(provider, asked, attr, error), .lid = {}, .gid_indices = {}};
  if (rail.ethernet) {
    seen.lid = 0;
  } else if (error == 0) {
    seen.lid = attr.lid;
  }
  const std::vector<GidEntry> table = ask_gids(provider, asked);
  for (const GidEntry& known : rail.gids) seen.gid_indices.push_back(index_among(table, known));
  rail.view->set(std::move(seen));
}

void keep_views(std::span<Rail> rails) {
  for (Rail& rail : rails) {
    PortView::Seen seen{.port = {.up = rail.up,
                                 .state = rail.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
                                 .mtu = rail.active_mtu,
                                 .speed_mbps = rail.info.speed_mbps},
                        .lid = rail.ethernet ? std::uint16_t{0} : rail.lid,
                        .gid_indices = {}};
    for (const GidEntry& known : rail.gids) seen.gid_indices.emplace_back(known.index);
    rail.view = std::make_unique<PortView>();
    rail.view->set(std::move(seen));
  }
}

PortNow port_now(Provider& provider, const Rail& rail) {
  if (rail.view != nullptr) return rail.view->port();
  const WaitsUnderLocks no_threads;
  ibv_port_attr attr{};
  const Asked asked(rail);
  const int error = asked.port(provider, &attr);
  return port_told(provider, asked, attr, error);
}

bool port_is_up(Provider& provider, const Rail& rail) { return port_now(provider, rail).up; }

std::string why_away(Provider& provider, const Rail& rail) {
  const PortNow now = port_now(provider, rail);
  if (now.up) return {};
  return now.card_left ? card_left_text(rail) : "our port is down";
}

std::string card_left_text(const Rail& rail) {
  const std::string place = pci_address(rail.info);
  return fmt::format("the card left: rail {}{}{}", rail.info.name, place.empty() ? "" : ", PCI ",
                     place);
}

std::optional<std::uint16_t> current_lid(Provider& provider, const Rail& rail) {
  if (rail.ethernet) return 0;
  if (rail.view != nullptr) return rail.view->lid();
  const WaitsUnderLocks no_threads;
  ibv_port_attr attr{};
  const int error = Asked(rail).port(provider, &attr);
  return error == 0 ? std::optional(attr.lid) : std::nullopt;
}

std::optional<int> gid_index_now(Provider& provider, const Rail& rail, std::size_t address) {
  if (rail.view != nullptr) return rail.view->gid_index(address);
  const WaitsUnderLocks no_threads;
  return index_among(ask_gids(provider, Asked(rail)), rail.gids[address]);
}

ibv_mtu mtu_of(const ibv_port_attr& attr) {
  return attr.active_mtu >= IBV_MTU_256 && attr.active_mtu <= IBV_MTU_4096 ? attr.active_mtu
                                                                           : IBV_MTU_1024;
}

std::uint32_t speed_of(Provider& provider, ibv_context* context, std::uint8_t port,
                       const ibv_port_attr& attr) {
  const std::uint32_t whole = provider.port_speed_mbps(context, port);  // of a bond
  return whole != 0 ? whole : link_speed_mbps(active_speed(attr), attr.active_width);
}

}  // namespace mesh::verbs
