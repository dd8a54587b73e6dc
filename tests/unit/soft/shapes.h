#pragma once
// Writes fabric files of hosts that are cabled as rings and tori, with several cables for each pair
// of neighbours and ports in any order. Thread: any. Bounds: those of a fabric file.

#include "tests/prelude.h"

namespace mesh::testkit {

enum class Guids : std::uint8_t {
  Distinct,  // each NIC has its own
  OfHost,    // all NICs of a host have one, such as ports of one card in a virtual machine
  Zero       // no NIC tells one
};

// The subnets of the cables.
enum class Subnets : std::uint8_t {
  OneForEachCable,
  OneForAll,
  LinkLocal  // 169.254/16 on all ports, as they come without a setting
};

struct Shape {
  int hosts = 4;           // named a, b, c, ...
  int columns = 0;         // of a torus; 0: the hosts form a ring
  int cables = 1;          // for each pair of neighbours
  std::uint64_t seed = 0;  // of the order of each host's ports; 0: cable by cable
  Guids guids = Guids::Distinct;
  Subnets subnets = Subnets::OneForEachCable;
  bool firewall = false;  // no port hears datagrams
};

std::string fabric_of(const Shape& shape);
std::string text_of(const Shape& shape);  // "ring of 5, 2 cables, seed 3, ...", for messages

}  // namespace mesh::testkit
