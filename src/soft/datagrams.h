#pragma once
// The datagrams of a host of the software fabric: they go over the cable of the NIC that sends, to
// the NICs at its other ends. Thread: any. Bound: kDatagramsMax waiting for one reader, and the
// rest is lost.

#include "src/base/unique_fd.h"
#include "src/soft/fabric_file.h"
#include "src/soft/host_state.h"
#include "src/verbs/cable_datagrams.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace mesh::soft {

inline constexpr std::size_t kDatagramsMax = 256;

struct SoftDatagram {
  int to_nic = 0;  // of the host that gets it
  std::uint16_t to_port = 0;
  verbs::CableDatagram content;
};

// Returns the slot of the process that reads the port, unless it is the group's.
constexpr int slot_of_port(std::uint16_t port) noexcept { return port / (65536 / kSlotsMax); }

// Returns the addresses of a NIC's net device, without a port. Each has its own link-local one,
// whatever the GUIDs, but those of a clone.
verbs::DatagramPlace device_place(const FabricFile& fabric, const NicRef& ref);

// The open datagrams of one host. Outlives them.
class DatagramReaders {
 public:
  // Carries a datagram from a NIC of this host to a place.
  using Carry = std::function<void(int nic, const verbs::DatagramPlace& to,
                                   const verbs::CableDatagram& content)>;

  struct End {
    int nic = 0;
    int slot = 0;                  // of the process
    verbs::DatagramPlace place{};  // of the NIC's net device, without a port
    verbs::DatagramEnd takes = verbs::DatagramEnd::Port;
    Carry carry{};
    std::function<bool()> is_there{};  // false: the card was replaced, and its net device with it
  };

  // Returns null without a descriptor.
  std::unique_ptr<verbs::CableDatagrams> open(End end);
  void take(const SoftDatagram& datagram);  // over the wire; what nobody reads is lost

 private:
  class Reader;
  std::uint16_t next_port(int slot) noexcept;
  std::mutex mutex_;
  std::vector<Reader*> readers_;
  std::uint16_t ports_given_ = 0;
};

}  // namespace mesh::soft
