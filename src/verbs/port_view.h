#pragma once
// The port of a rail as it is now. A device may take a minute to answer, and callers that hold
// locks must not wait for it: they get what was seen last, and whoever may wait looks anew. Without
// a view (Rail::view) each call asks the device. Thread: any. Bound: the addresses of a rail.

#include <mesh/config.h>

#include "src/verbs/provider.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::verbs {

struct Rail;

// A port that does not answer is down (up is false), and its card has left if the kernel has no
// device or no answer from it. The speed and the MTU of a port that is down are those found at the
// start.
struct PortNow {
  bool up = false;
  bool card_left = false;               // the kernel has no device, or no answer from it
  ibv_port_state state = IBV_PORT_NOP;  // of a port that does not answer
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint32_t speed_mbps = 0;  // 0: not known
};

class PortView {
 public:
  struct Seen {
    PortNow port;
    std::optional<std::uint16_t> lid;
    std::vector<std::optional<int>> gid_indices;  // by address of the rail
  };
  // Return what was seen last. Whoever asks wishes that somebody looks again.
  PortNow port() const noexcept;
  std::optional<std::uint16_t> lid() const noexcept;
  std::optional<int> gid_index(std::size_t address) const noexcept;
  bool card_left() const noexcept;  // without a wish
  // Returns true if somebody has asked since the last call.
  bool take_wish() noexcept { return wished_.exchange(false, std::memory_order_relaxed); }

  void set(Seen seen) noexcept;
  // Note what an event says.
  void note_down() noexcept;
  void note_card_left() noexcept;

 private:
  mutable std::mutex mutex_;
  Seen seen_;
  mutable std::atomic<bool> wished_{true};  // discovery's look is to be followed by another
};

// Asks the device, which may take long, and notes the answer in the rail's view.
void look_at_port(Provider& provider, const Rail& rail);

// Gives each rail a view that shows what discovery saw of its port. Asks no device.
void keep_views(std::span<Rail> rails);

PortNow port_now(Provider& provider, const Rail& rail);
bool port_is_up(Provider& provider, const Rail& rail);
// Returns "our port is down", or that the card left; empty if the port is up.
std::string why_away(Provider& provider, const Rail& rail);
// Returns a text such as "the card left: rail mlx5_0:1, PCI 0000:01:00.0".
std::string card_left_text(const Rail& rail);

// Returns the LID of an InfiniBand port at this moment, because a subnet manager may give it
// another one; 0 on Ethernet; no value if the port does not answer.
std::optional<std::uint16_t> current_lid(Provider& provider, const Rail& rail);

// Returns the index of an address of the rail at this moment: the kernel may take the address away
// and give it back under another index. Returns no value if the port has lost the address.
std::optional<int> gid_index_now(Provider& provider, const Rail& rail, std::size_t address);

// Returns the port's MTU, or 1024 if it reports none that exists: a port that is down may do so.
ibv_mtu mtu_of(const ibv_port_attr& attr);
std::uint32_t speed_of(Provider& provider, ibv_context* context, std::uint8_t port,
                       const ibv_port_attr& attr);

}  // namespace mesh::verbs
