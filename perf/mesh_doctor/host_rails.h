#pragma once
// The rails of one host as the engine tells them to a peer, and the facts that bound their rates.
// Every host sends its own to all others as JSON. Thread: any (values). Bound: the host's rails.

#include "engine/control/frames.h"

#include <mesh/status.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mesh::doctor {

// The facts about a rail that HELLO does not tell.
struct RailPace {
  double bus_gbps = 0;  // what its PCIe link carries as it is trained now; 0: not known
  bool known = true;    // false: a software fabric that names no rate, so nothing can be expected
};

struct HostRails {
  std::string host;  // one name in the run
  std::string site;
  bool soft = false;  // of a software fabric: all hosts share this machine
  std::vector<engine::WireRail> rails;
  std::vector<RailPace> paces;  // by rail
};

std::string to_text(const HostRails& rails);
// Returns Protocol if the text is not of to_text().
Result<HostRails> rails_from(const std::string& text);

// Appends its rank to the name of a host that shares its name, so that each name is unique.
void tell_apart(std::vector<HostRails>& hosts);

std::string rail_text(const HostRails& host, std::size_t rail);  // "a/mesh0:1"
std::string address_of(const engine::WireRail& rail);            // "10.0.12.1/24"
std::uint32_t mtu_bytes(std::uint8_t code);                      // of an ibv_mtu

}  // namespace mesh::doctor
