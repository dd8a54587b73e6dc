#pragma once
// The lines about the peer of a link, each once. Thread: control mutex. Bounds: those of PeerLog.

#include "engine/message/id128.h"

namespace mesh::engine {

class Link;

// Logs that the link is up.
void announce(const Link& link);

// Logs that another host has the peer's name, if there is one.
void say_name_twice(const Link& link);

// Connector: learns which cables carry one way only, from an offer of places and from all that the
// peer has found out with it, and logs them.
void take_one_way(Link& link, const Id128& offer);

}  // namespace mesh::engine
