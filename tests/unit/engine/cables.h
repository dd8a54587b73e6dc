#pragma once
// Fabrics of two hosts with several cables (n0 to n0 and so on) or of hosts in a row, and the bytes
// that the first host has sent over each cable. Thread: one.

#include "tests/unit/engine/bed.h"

namespace mesh::testkit {

std::string cables(int count);  // returns a fabric file
std::vector<std::uint64_t> bytes_by_cable(const Bed& bed, int count);
// Takes both ports of the cable down, until mend_cable() lifts the faults.
void cut_cable(Bed& bed, int cable);
void mend_cable(Bed& bed, int cable);

// Returns a fabric file of `count` hosts a, b, c, ... in a row: n1 of each leads to n0 of the next
// host. In a ring n1 of the last host leads to n0 of the first one.
std::string row(int count, bool ring);

}  // namespace mesh::testkit
