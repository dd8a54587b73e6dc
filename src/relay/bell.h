#pragma once
// Wakes the thread of a middle host when something completes for a chain: the completion channel
// of one open device, shared by the completion queues of some chains. Thread: one maker; take()
// from the thread of the chains; listeners under the mutex of the Middle. Bound: a descriptor.

#include "src/verbs/handle.h"

#include <cstdint>

namespace mesh::relay {

class Bell {
 public:
  Bell() = default;
  // The bell is mute if the device has no completion events, or refuses a channel. The open device
  // outlives the bell, and the bell outlives its completion queues.
  Bell(verbs::Provider& provider, ibv_context* context)
      : channel_(provider, provider.create_channel(context)) {}

  bool mute() const noexcept { return !channel_; }
  ibv_comp_channel* channel() const noexcept { return channel_.get(); }
  int fd() const noexcept { return channel_->fd; }
  // Takes all events.
  void take() noexcept {
    while (channel_.provider()->next_completion_event(channel_.get())) continue;
  }

  std::uint32_t listeners = 0;  // chains in a Middle; 0: the Middle does not watch the descriptor

 private:
  verbs::ChannelHandle channel_;
};

}  // namespace mesh::relay
