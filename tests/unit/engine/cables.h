#pragma once
// Two hosts with so many cables between them, n0 to n0 and so on, and what the first one has sent
// over each. Thread: one.

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

}  // namespace mesh::testkit
