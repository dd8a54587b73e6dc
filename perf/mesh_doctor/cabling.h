#pragma once
// The cabling map: the ports of all hosts, as their engines tell them, and which of them meet, as
// the engine's own pairing has it. Every host sends its rails to all others as JSON. Thread: any
// (values). Bound: kPathsMax of the engine for each pair of hosts.

#include "engine/control/frames.h"
#include "engine/link/path_choice.h"

#include <mesh/status.h>

#include <cstddef>
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
  std::uint64_t host_id = 0;  // as in HELLO
  bool soft = false;          // of a software fabric: all hosts share this machine
  std::vector<engine::WireRail> rails;
  std::vector<RailPace> paces;  // by rail
  // By rail: the address at which its net device takes datagrams. They must have the nonce.
  std::vector<engine::WirePlace> places{};
  engine::Id128 nonce{};
};

std::string to_text(const HostRails& rails);
// Returns Protocol if the text is not of to_text().
Result<HostRails> rails_from(const std::string& text);

// Appends its rank to the name of a host that shares its name, so that each name is unique.
void tell_apart(std::vector<HostRails>& hosts);

std::string rail_text(const HostRails& host, std::size_t rail);  // "a/mesh0:1"
std::string address_of(const engine::WireRail& rail);            // "10.0.12.1/24"
std::uint32_t mtu_bytes(std::uint8_t code);                      // of an ibv_mtu

struct End {
  std::size_t host = 0, rail = 0;
  friend auto operator<=>(const End&, const End&) = default;
};

// Two rails that meet. A cable over two PCIe functions has two of them.
struct Half {
  End a, b;               // a.host < b.host
  std::uint32_t mtu = 0;  // of the path, in bytes
  bool up = true;         // both ports
};

struct Cable {
  std::vector<Half> halves;  // at least one; all of the same two hosts
  std::size_t a() const { return halves.front().a.host; }
  std::size_t b() const { return halves.front().b.host; }
};

struct Cabling {
  std::vector<HostRails> hosts;  // by rank
  std::vector<Cable> cables;     // ordered by their hosts

  const engine::WireRail& rail(const End& end) const { return hosts[end.host].rails[end.rail]; }
  std::string text(const End& end) const { return rail_text(hosts[end.host], end.rail); }
  std::string text(const Half& half) const { return text(half.a) + " -- " + text(half.b); }
  std::string text(const Cable& cable) const;  // by its first half
  std::string hosts_of(const Cable& cable) const;
  std::vector<End> met_by(const End& end) const;
  std::vector<End> ports_of(const End& end) const;         // of its host, on its cable
  bool joined(std::size_t host, std::size_t other) const;  // by some cable that is up
};

// Returns the frame with which this host would begin a handshake.
engine::Hello hello_of(const HostRails& host);
// The pairs of rails that meet, as the acceptor sees it; the connector's rail comes first.
using Meeting = std::vector<engine::WirePath>;
Meeting meeting_of(const HostRails& connector, const HostRails& acceptor,
                   const engine::AskRoute& ask, const topo::CableProof* proof = nullptr);

// Writes the meetings of one host with each host before it.
std::string meetings_text(const std::vector<Meeting>& meetings);
// Returns Protocol if the text is not of meetings_text(), or not about `hosts` hosts.
Result<std::vector<Meeting>> meetings_from(const std::string& text, std::size_t hosts);

// meetings[j][i] is what host j, as the acceptor, has found with host i < j.
Cabling cabling_of(std::vector<HostRails> hosts, const std::vector<std::vector<Meeting>>& meetings);

}  // namespace mesh::doctor
