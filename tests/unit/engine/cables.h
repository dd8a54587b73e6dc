#pragma once
// Two hosts with so many cables between them, n0 to n0 and so on, and what the first one has sent
// over each; hosts in a row. Thread: one.

#include "tests/unit/engine/bed.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mesh::testkit {

std::string cables(int count);  // a fabric file
std::vector<std::uint64_t> bytes_by_cable(const Bed& bed, int count);
// Both ports of the cable, now, until the faults are lifted.
void cut_cable(Bed& bed, int cable);
void mend_cable(Bed& bed, int cable);

// So many hosts a, b, c, ... in a row: n1 of each to n0 of the next, and in a ring the last one's
// to the first's. A fabric file.
std::string row(int count, bool ring);

}  // namespace mesh::testkit
