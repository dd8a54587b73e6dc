#pragma once
// Puts what a link's channels have registered on further rails, those of paths that stood by until
// now. Pinning gigabytes takes time, so it is done without any of the engine's locks. NCCL may
// register and deregister meanwhile: take_over() keeps what is registered then, and where that is
// not covers()ed, another object, which gets this one, registers the rest first. Thread:
// construction, covers(), take_over() and destruction under the control mutex; register_all() on
// one thread in between. Bound: the registrations of one link.

#include <mesh/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh {
class Registration;
}

namespace mesh::engine {

class PeerLink;
class RegistrationTable;

class StandbyMemory {
 public:
  // rails: those that the link's registrations are not on.
  StandbyMemory(RegistrationTable& table, const PeerLink& link, std::vector<std::uint32_t> rails);
  // For what `before` does not cover.
  StandbyMemory(std::unique_ptr<StandbyMemory> before, const PeerLink& link);
  ~StandbyMemory();  // what only it has used goes with the last use of the memory
  StandbyMemory(const StandbyMemory&) = delete;
  StandbyMemory& operator=(const StandbyMemory&) = delete;

  // Returns System if a rail refused; logged. Then what the other rails have registered is given
  // back at once, and the link stays as it was.
  Status register_all();
  std::uint64_t rails() const noexcept;                 // bits
  bool complete() const noexcept { return complete_; }  // register_all() has succeeded
  // Returns true if these rails have all that is registered through the link now; a card that has
  // left needs none.
  bool covers(const PeerLink& link) const;
  // Puts all that is registered through the link on these rails too, now and until the paths rest.
  // Returns WouldBlock, and changes nothing, where it is not covered. Waits for no device.
  Status take_over(PeerLink& link);

 private:
  struct Held {
    Registration* region = nullptr;
    std::size_t on_rails = 0;  // how many of rails_, from the first on
  };
  Status prepare_all();
  void drop_all() noexcept;

  RegistrationTable& table_;
  const std::vector<std::uint32_t> rails_;
  std::vector<Held> held_;
  std::unique_ptr<StandbyMemory> before_;  // holds what it has registered until we hold it
  bool complete_ = false;
};

}  // namespace mesh::engine
