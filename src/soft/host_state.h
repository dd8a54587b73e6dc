#pragma once
// The processes of one host share its faults and the time that its wires have been booked. The
// first process makes this state, and each later one gets it from a process that is there. Hosts
// that send to it get it, too, if its cards' slots have rates. A process has a slot of its host,
// which is no card's; its queue pairs have numbers of that slot. Thread: any. Bound:
// kSlotsMax processes.

#include <mesh/status.h>

#include "src/base/unique_fd.h"
#include "src/soft/fabric_file.h"
#include "src/soft/fault_plan.h"
#include "src/soft/segment.h"
#include "src/soft/wire_model.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace mesh::soft {

// A queue pair number has 24 bits: its process's slot, 8 bits of generation, 12 bits of index.
inline constexpr int kSlotsMax = 16;
inline constexpr std::uint32_t kSlotShift = 20;
constexpr int slot_of(std::uint32_t qp_num) noexcept {
  return static_cast<int>(qp_num >> kSlotShift) % kSlotsMax;
}

struct HostMemory {
  FaultTable faults;
  std::array<Transmitter, kNicsMax> cables, buses;  // a cable's is that of its first NIC here
  std::array<CardSlot, kNicsMax> slots;
  std::array<std::uint8_t, kNicsMax> places;  // of NICs: 1 + an index into slots; 0: in none

  void set_slots(const HostSpec& host) noexcept;
  // Returns the slot of a NIC, or null.
  CardSlot* slot_of(int nic) noexcept {
    const std::size_t place = places[static_cast<std::size_t>(nic)];
    return place == 0 || place > slots.size() ? nullptr : &slots[place - 1];
  }
};

class HostState {
 public:
  static Result<std::shared_ptr<HostState>> create(Sharing sharing);
  static Result<std::shared_ptr<HostState>> map(UniqueFd fd);  // from another process
  // Maps the state of another host, of which it keeps no descriptor.
  static Result<std::shared_ptr<HostState>> map_peers(UniqueFd fd);

  HostMemory& memory() const noexcept { return *reinterpret_cast<HostMemory*>(segment_.data()); }
  int fd() const noexcept { return fd_.get(); }

 private:
  HostState(Segment segment, UniqueFd fd);
  Segment segment_;
  UniqueFd fd_;  // for processes to come
};

// One process at a time becomes a host. This object holds the place, a socket's name, which is free
// again when the object or the process ends.
class HostBirth {
 public:
  HostBirth() = default;
  ~HostBirth();
  HostBirth(const HostBirth&) = delete;
  HostBirth& operator=(const HostBirth&) = delete;

  // Waits up to kBirthMs for the place. Returns System, after a line, if it cannot be had.
  Status begin(const std::string& universe, const std::string& host);
  // Asks the other processes that are the host for its state; leaves it empty if there is none.
  // Returns System, after a line, if one does not answer within kAnswerMs, or without a descriptor.
  static Status find_state(const std::string& universe, const std::string& host,
                           std::shared_ptr<HostState>* state);

 private:
  UniqueFd place_;
};
inline constexpr int kBirthMs = 30'000;

}  // namespace mesh::soft
