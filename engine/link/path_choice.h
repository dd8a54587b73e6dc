#pragma once
// Which rails and addresses of two hosts become the paths of a link: the acceptor's decision, made
// of both sides' rails. Thread: any (values). Bound: kPathsMax paths.

#include "engine/control/frames.h"

#include <string>
#include <vector>

namespace mesh::engine {

// Paths with rails, addresses and MTU filled in, the connector's preferred rail first. Empty: no
// common subnet.
std::vector<WirePath> choose_paths(const Hello& hello, const std::vector<WireRail>& own_rails);

// "our subnets ...; the peer's ...", from the connector's side.
std::string no_path_text(const Hello& hello, const std::vector<WireRail>& own_rails);

// A line for each subnet that several of our rails are in: of direct cables in one subnet nothing
// tells which leads where.
std::vector<std::string> shared_subnet_lines(const std::vector<WireRail>& rails);

std::string address_text(const WireAddress& address);  // "10.0.12.1"

}  // namespace mesh::engine
