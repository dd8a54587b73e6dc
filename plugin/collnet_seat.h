#pragma once
// This host's place in one group: a context of its own in the engine, the listener, and the group
// once it stands. Thread: NCCL's service thread, one call at a time; the group is the progress
// thread's. Bound: one for each communicator and NIC.

#include <mesh/engine.h>
#include <mesh/status.h>

#include "plugin/oneshot/group.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mesh::plugin {

class CollNetSeat {
 public:
  // Returns a seat even if the engine refuses, and an empty handle then: others that connect to it
  // fail at once. Throws bad_alloc.
  static std::unique_ptr<CollNetSeat> listen(Engine& engine, HandleBytes& handle);
  ~CollNetSeat();
  CollNetSeat(const CollNetSeat&) = delete;
  CollNetSeat& operator=(const CollNetSeat&) = delete;

  struct Invitation {
    std::span<void* const> handles;  // by rank; each has kHandleBytes
    std::size_t rank = 0;
    std::uint64_t bound = 0;  // NCCL_MESH_ONESHOT_BYTES
    std::string host = {};    // this host's name
    int stall_seconds = 0;    // NCCL_MESH_STALL_SECONDS
  };
  // Blocks until the group stands, or cannot. One line says how it went.
  void connect(const Invitation& invitation) noexcept;
  void close_listener() noexcept;

  oneshot::Group* group() const noexcept { return group_.get(); }  // null: this host has none
  bool connected() const noexcept { return connected_; }

 private:
  explicit CollNetSeat(Engine& engine) noexcept : engine_(engine) {}
  // Returns why there is no group, or empty.
  std::string bring_up(const Invitation& invitation);

  Engine& engine_;
  Context* context_ = nullptr;
  Listener* listener_ = nullptr;
  bool connected_ = false;
  std::unique_ptr<oneshot::Group> group_;
};

}  // namespace mesh::plugin
