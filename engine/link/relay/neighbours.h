#pragma once
// Hosts find each other over their cables. If a message has no route, this asks over each of our
// ports, and what answers may be a host between. All processes that share a secret hear such
// questions and answer them: NCCL_MESH_JOB, or the ids of the communicators that are open. Without
// one nothing is opened, asked or answered. Nothing is asked while a path is up or a route over
// known cables is there. Thread: control mutex. Bounds: kNeighbourKeysMax secrets, kFoundMax hosts,
// kRoundsMax questions that may be answered. In a second a port looks at kLooksMax datagrams, fewer
// if there are more than kCodesOfLook codes to compute for each, after which it hears no questions
// until the second is over, and answers kAnswersMax.

#include <mesh/snapshot.h>

#include "engine/control/relay_frames.h"
#include "engine/link/relay/neighbour_message.h"
#include "src/topo/pairing.h"
#include "src/verbs/cable_datagrams.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

class LinkHost;

class Neighbours {
 public:
  static constexpr std::size_t kFoundMax = 64;
  static constexpr std::size_t kRoundsMax = 4;
  static constexpr int kDatagramsPerPass = 64;
  static constexpr std::uint32_t kLooksMax = 256, kCodesOfLook = 8;
  static constexpr std::uint32_t kAnswersMax = 64;

  explicit Neighbours(LinkHost& host) : host_(host) {}
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // ---- The job's secrets.
  void begin();  // takes NCCL_MESH_JOB; with it the ids of communicators do not count
  void know(std::uint64_t communicator);  // one that is open
  void forget(std::uint64_t communicator) noexcept;
  // Hears questions over the ports that do not yet, and over those whose net device is another one
  // now. Called when a port comes up. If another program has the UDP port, tend() tries again.
  void listen();

  // ---- Asking.
  // Asks over each port, but not before the pause since the last question is over.
  void ask();
  // The hosts that have answered, without rails: they tell those themselves. Their cables are those
  // over which they have answered.
  std::vector<WireHost> found() const;
  bool any_found() const noexcept { return !found_.empty(); }
  // How long a message without a route waits for somebody to answer.
  std::uint64_t patience_ns() const noexcept;
  std::string told() const;  // what was asked and who answered, or why nobody was, for a line
  void tend();               // forgets what is over, and hears again if it could not

  // ---- Events.
  bool owns(int fd) const noexcept;
  void on_readable(int fd);

  const NeighbourCounts& counts() const noexcept { return counts_; }

 private:
  struct Secret {
    std::uint64_t communicator = 0;
    std::uint32_t uses = 0;  // open communicators with this id
    JobKey key;
  };
  struct Round {  // one question over all ports
    Id128 nonce{};
    std::uint64_t until_ns = 0;
  };
  struct Wire {
    topo::WirePair pair;  // our rail is the local one
    std::uint64_t until_ns = 0;
  };
  struct Found {
    WireHost host;
    std::vector<Wire> wires;  // at least one
  };
  struct Budget {                          // of one port
    std::uint64_t began_ns = 0;            // begin of the second that is counted
    std::uint32_t codes = 0, answers = 0;  // a look counts as kCodesOfLook codes or more
  };
  struct Answered {  // a question, which is answered once
    Id128 nonce{};
    std::size_t rail = 0;
  };
  using Ends = std::vector<std::unique_ptr<verbs::CableDatagrams>>;  // by rail; null: not open

  std::span<const Secret> keys() const noexcept;
  bool takes_part() const noexcept;
  template <typename Open>
  void open_all(Ends& ends, Open&& open);
  Budget& budget_of(std::size_t rail);
  std::size_t codes_of_question() const noexcept {
    return std::max<std::size_t>(keys().size(), kCodesOfLook);
  }
  bool may_compute(std::size_t rail, std::size_t codes);
  void rest(std::size_t rail);
  void hear_question(std::size_t rail, const verbs::CableDatagram& datagram);
  void answer(std::size_t rail, const verbs::DatagramPlace& to, const Secret& secret,
              const NeighbourQuestion& question);
  void hear_answer(std::size_t rail, const verbs::CableDatagram& datagram);
  void note(std::size_t rail, NeighbourAnswer answer);

  LinkHost& host_;
  std::vector<Secret> secrets_;
  bool named_ = false;              // NCCL_MESH_JOB is the secret
  Ends ears_, mouths_;              // hear questions; ask, and hear answers
  bool port_taken_ = false;         // another program has the group's UDP port
  std::uint64_t listen_at_ns_ = 0;  // when listen() is due; 0: when something happens
  std::vector<Round> rounds_;
  std::vector<Budget> budgets_;     // by rail
  std::vector<Answered> answered_;  // the newest last
  std::vector<Found> found_;
  std::uint64_t asked_ns_ = 0, pause_ns_ = 0;  // the last question, and the pause after it
  NeighbourCounts counts_;
};

}  // namespace mesh::engine
