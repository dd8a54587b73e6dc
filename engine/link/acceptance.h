#pragma once
// Decides what a HELLO gets: the paths of its link, or a refusal. Thread: control mutex. Bound:
// that of choose_paths().

#include "engine/control/frames.h"
#include "engine/link/cable_proofs.h"
#include "engine/link/path_choice.h"
#include "src/topo/pairing.h"

#include <memory>
#include <string>

namespace mesh::engine {

class LinkHost;

// Returns what choose_paths() takes of this host; `rails` are describe_rails() and must live on.
OwnRails own_rails(LinkHost& host, const std::vector<WireRail>& rails);

struct Acceptance {
  PathChoice choice;
  std::string refusal;  // empty: the paths are chosen
};
// `proof`: which rails are on one wire; null if that is not known.
Acceptance decide(LinkHost& host, const Hello& hello, const topo::CableProof* proof);

// Tells what is known of the wires between a HELLO's rails and ours.
struct Wires {
  const topo::CableProof* known = nullptr;
  std::unique_ptr<CableProofs::Question> question;  // to be asked before decide(); null: none is
};
Wires look_at_wires(LinkHost& host, const Hello& hello);
// Goes on with the question about a HELLO, and begins it anew if a port of ours has changed: a
// cable may have moved since it was answered. Returns false if it is over.
bool keep_asking(LinkHost& host, const Hello& hello, CableProofs::Question& question);

}  // namespace mesh::engine
