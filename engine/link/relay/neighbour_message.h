#pragma once
// The contents of the datagrams by which hosts find each other over their cables. A question goes
// to all neighbours on a wire; an answer tells where the answering process may be dialed, and its
// ticket, which only holders of the job's secret can read. A question has a code for each secret of
// its process, and an answer one. A question's code also covers the place that asks, so that it is
// worth nothing elsewhere, and an answer's the nonce of its question. Thread: any (pure). Bounds:
// one datagram, kNeighbourKeysMax codes.

#include "engine/message/id128.h"
#include "src/base/hmac.h"
#include "src/base/socket.h"
#include "src/verbs/cable_datagrams.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mesh::engine {

inline constexpr std::size_t kNeighbourKeysMax = 24;

// The secret of a job as keys.
struct JobKey {
  Digest signs{}, hides{};
};
// Sites have keys of their own, because no host of another site carries for us.
JobKey key_of_text(std::string_view text, std::string_view site = {});  // NCCL_MESH_JOB
JobKey key_of_communicator(std::uint64_t id,
                           std::string_view site = {}) noexcept;  // the id that NCCL gives to init

using DatagramBytes = std::vector<std::byte>;

struct NeighbourQuestion {
  std::uint8_t rail = 0;  // of the asker
  Id128 nonce{};
};
struct NeighbourAnswer {
  std::uint8_t asker_rail = 0, rail = 0;  // the two ends of the wire
  Id128 ticket{};
  std::uint16_t port = 0;
  std::string name;
  std::vector<SocketAddress> addresses;  // as many as fit
};

// Takes 1 to kNeighbourKeysMax keys.
DatagramBytes bytes_of(const NeighbourQuestion& question, std::span<const JobKey> keys,
                       const verbs::DatagramPlace& asker);
DatagramBytes bytes_of(const NeighbourAnswer& answer, const JobKey& key, const Id128& nonce);

// Return no value if the bytes are no question or answer, or their codes were made with other keys,
// by another place or to another nonce.
std::optional<NeighbourQuestion> question_of(std::span<const std::byte> bytes, const JobKey& key,
                                             const verbs::DatagramPlace& asker);
std::optional<NeighbourAnswer> answer_of(std::span<const std::byte> bytes, const JobKey& key,
                                         const Id128& nonce);
// Returns true for bytes that have the form of a question or of an answer.
bool may_be_question(std::span<const std::byte> bytes) noexcept;
bool may_be_answer(std::span<const std::byte> bytes) noexcept;

}  // namespace mesh::engine
