#pragma once
// Finds out which ports of two hosts are on one wire, where their addresses leave a choice. HELLO
// tells where the connector's ports take datagrams, with two nonces. The acceptor asks over those
// of its ports that addresses leave in doubt; a port that hears a question answers over the wire by
// which it came. Questions have one nonce and answers the other, so a host on a wrong cable that
// hears a question knows no answer. Without any answer nothing is known. Thread: control mutex.
// Bounds: kOffersMax HELLOs that may be asked about, kPeersKnownMax results, kDatagramsPerPass
// datagrams of a port in one pass; what no handshake expects is counted and ignored.

#include "engine/control/frames.h"
#include "src/topo/pairing.h"
#include "src/verbs/cable_datagrams.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

class LinkHost;
struct DoubtfulRails;

class CableProofs {
 public:
  static constexpr std::size_t kOffersMax = 256;
  static constexpr std::size_t kPeersKnownMax = 1024;
  static constexpr int kDatagramsPerPass = 64;
  static constexpr int kOneWayQuestions = 4;  // 40 ms pass between the first and the fourth
  // The port that answers first is asked on. So many of these questions have an answer each before
  // silence of others counts: a connector that is stopped between two of its ports answers over
  // neither meanwhile.
  static constexpr int kAnswersToSettle = 3;

  explicit CableProofs(LinkHost& host) : host_(host) {}
  CableProofs(const CableProofs&) = delete;
  CableProofs& operator=(const CableProofs&) = delete;

  // ---- Connector.
  // Returns what HELLO tells of our ports.
  WireProof offer();
  // Rails of ours, as bits, whose subnet is on several cables although our addresses do not tell.
  void note_shared(std::uint64_t rails) noexcept { shared_ |= rails; }
  std::uint64_t shared() const noexcept { return shared_; }
  void withdraw(const Id128& ask) noexcept;  // the peer has decided; zero: there was no offer
  // Returns the pairs over which the peer has asked us again and again, while it says that it heard
  // none of our answers: what the cable carries goes one way. Call it before withdraw().
  std::vector<topo::WirePair> one_way(const Id128& ask, const topo::CableProof& told) const;

  // ---- Either side. A cable that was found in one direction is one in both: a firewall may drop
  // the questions of one side, and pass the answers to its own.
  // Adds the pairs that were found to be on one wire with that process; our rails are the local
  // ones.
  void note_met(const Id128& ticket, std::span<const topo::WirePair> pairs);
  // Returns them, until a port of ours changes.
  std::span<const topo::WirePair> met_with(const Id128& ticket) const noexcept;
  std::uint64_t met_news() const noexcept { return met_news_; }  // grows with each new pair

  // ---- Acceptor. The connector's rails are the local ones of a pair.
  // The question about one HELLO. It ends when it is destroyed, and `proofs` outlives it.
  class Question {
   public:
    ~Question();
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;

    // Sends what is due. Returns false if it is over: the answers decide, or the time is up.
    bool tend(std::uint64_t now_ns);
    // Returns true if a port of ours has changed since it began, and there is time to begin anew.
    bool may_be_stale(std::uint64_t now_ns) const noexcept { return doubted_ && now_ns < last_ns_; }
    // Begins, and forgets what was answered before. It ends no later for that.
    void begin(const Hello& hello, const DoubtfulRails& rails);
    std::uint64_t due_ns() const noexcept;  // of the next tend()
    const topo::CableProof& proof() const noexcept { return proof_; }

   private:
    friend class CableProofs;
    explicit Question(CableProofs& proofs) : proofs_(proofs) {}
    bool decided() const;
    bool settled(std::uint64_t now_ns) const noexcept {
      return answers_ >= kAnswersToSettle && now_ns >= settled_ns_;
    }
    void take_answer(const topo::WirePair& pair);
    void send(const topo::WirePair& pair);

    CableProofs& proofs_;
    std::vector<topo::WirePair> pairs_;  // the doubtful ones, also those that cannot be asked
    std::vector<topo::WirePair> down_;   // also asked, but silence over them tells nothing
    std::vector<WirePlace> places_;
    Id128 ask_{}, answer_{};
    topo::CableProof proof_;
    std::vector<topo::WirePair> alike_;  // asked pairs of equal identity
    std::uint64_t until_ns_ = 0, next_ns_ = 0, pause_ns_ = 0;
    std::uint64_t last_ns_ = 0;  // until_ns_ at most, however often it begins
    std::uint64_t settled_ns_ = 0;
    int answers_ = 0;       // to questions over the pair that answered first, since then
    bool awaits_ = false;   // one of those has no answer yet
    bool doubted_ = false;  // a port of ours has changed since it began
  };
  // Returns what an earlier question about these pairs found out, or null.
  const topo::CableProof* known(const Hello& hello, std::span<const topo::WirePair> pairs) const;
  // Returns what the last question about that host's ports found out, or null. It may have changed.
  const topo::CableProof* former(const Hello& hello) const;
  // Begins to ask. Returns null if no port of ours or of the peer takes datagrams.
  std::unique_ptr<Question> ask(const Hello& hello, const DoubtfulRails& rails);
  // Remembers what was found out, says so and returns it. Ports of which neither end answers now
  // are taken to be on the wire that an earlier question found.
  topo::CableProof conclude(const Hello& hello, const Question& question);

  // ---- Events.
  bool owns(int fd) const noexcept;
  void on_readable(int fd);
  void doubt() noexcept;  // a port of ours has changed: questions begin anew, handshakes ask again
  std::uint64_t ignored() const noexcept { return ignored_; }

 private:
  struct Known {
    std::string host;
    std::uint64_t host_id = 0;       // clones of a host have all else alike
    std::uint16_t control_port = 0;  // of its process, where a host has no id
    std::vector<WirePlace> places;
    std::vector<topo::WirePair> pairs;  // the doubtful ones at that time
    topo::CableProof proof;
    std::uint64_t until_ns = 0;
    bool doubted = false;

    bool is_of(const Hello& hello) const;  // of these ports of that process
  };
  struct Heard {
    topo::WirePair pair;
    int times = 0;
  };
  struct Offer {
    Id128 ask{}, answer{};
    std::vector<Heard> heard{};  // questions; our rails are the local ones

    void note(const topo::WirePair& pair);
  };
  struct Met {
    Id128 ticket{};
    std::vector<topo::WirePair> pairs;
  };
  verbs::CableDatagrams* end_of(std::size_t rail);  // null: it takes none
  void refresh_ends();                              // reads their addresses, but not too often
  bool reaches(std::size_t rail, const WirePlace& place);
  void take(std::size_t rail, const verbs::CableDatagram& datagram);
  void say(const Hello& hello, const topo::CableProof& proof) const;

  LinkHost& host_;
  std::vector<std::unique_ptr<verbs::CableDatagrams>> ends_;  // by rail; null: not open
  std::uint64_t refresh_at_ns_ = 0;                           // the next time of refresh_ends()
  std::vector<Offer> offers_;
  std::uint64_t shared_ = 0;
  std::vector<Question*> questions_;
  std::vector<Known> known_;
  std::vector<Met> met_;
  std::uint64_t met_news_ = 0;
  std::uint64_t ignored_ = 0;
};

}  // namespace mesh::engine
