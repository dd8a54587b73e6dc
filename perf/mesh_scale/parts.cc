#include "perf/mesh_scale/parts.h"

#include "engine/data/peer_link.h"
#include "engine/data/recv_channel.h"
#include "engine/data/recv_queue_pair.h"
#include "engine/data/send_channel.h"
#include "engine/data/send_queue_pair.h"
#include "engine/message/wire.h"

#include <fmt/format.h>

#include <cstddef>

namespace mesh::scale {
namespace {
constexpr std::size_t kWindowWordBytes = engine::kWindowWords * sizeof(std::uint64_t);

struct Part {
  const char* name;
  std::size_t object = 0, arrays = 0, registered = 0;
  engine::QueueDepths depths{};
};

std::string row(const Part& part) {
  return fmt::format("{:<34} {:>8} {:>8} {:>10} {:>6} {:>8} {:>11}\n", part.name, part.object,
                     part.arrays, part.registered, part.depths.send, part.depths.receive,
                     part.depths.send + part.depths.receive);
}

Part queue_pair(const char* name, engine::LinkRole role, const TransferPolicy& policy,
                std::uint32_t index) {
  const bool sends = role == engine::LinkRole::Connector;
  const engine::QueueDepths depths = engine::depths_of(policy, role, index);
  return {.name = name,
          .object = sends ? sizeof(engine::SendQueuePair) : sizeof(engine::RecvQueuePair),
          .arrays = engine::QueuePair::note_bytes(role, depths),
          .registered = sends ? kWindowWordBytes : 0,
          .depths = depths};
}
}  // namespace

std::string parts_table(const TransferPolicy& policy) {
  using engine::LinkRole;
  const std::size_t slots = policy.slots * sizeof(Request);
  std::string text =
      fmt::format("{:<34} {:>8} {:>8} {:>10} {:>6} {:>8} {:>11}\n", "# part, in bytes", "object",
                  "arrays", "registered", "sends", "receives", "completions");
  text += row({.name = "link",
               .object = sizeof(engine::PeerLink),
               .arrays = sizeof(engine::Path) * kPathsMax});
  text += row(queue_pair("sender: express queue pair", LinkRole::Connector, policy, 0));
  text += row(queue_pair("sender: bulk queue pair", LinkRole::Connector, policy, 1));
  text += row(queue_pair("receiver: express queue pair", LinkRole::Acceptor, policy, 0));
  text += row(queue_pair("receiver: bulk queue pair", LinkRole::Acceptor, policy, 1));
  text += row({.name = "send channel",
               .object = sizeof(engine::SendChannel),
               .arrays = slots,
               .registered = policy.slots * engine::credit_bytes(1)});
  text += row({.name = "receive channel",
               .object = sizeof(engine::RecvChannel),
               .arrays = slots,
               .registered = policy.slots * sizeof(engine::Record)});
  return text;
}

}  // namespace mesh::scale
