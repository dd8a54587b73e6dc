#pragma once
// The hosts that reach each other directly, and over how many cables: in a fabric file as a
// scenario wants it, and in the cluster that is there. Pure. Thread: any (values). Bound: 256
// hosts.

#include "tests/prelude.h"

#include <mesh/status.h>

namespace mesh::e2e {

class Shape {
 public:
  explicit Shape(std::size_t hosts) : hosts_(hosts), cables_(hosts * hosts, 0) {}

  // Reads the hosts of a fabric file by rank, all of them if `wanted` is empty. Fails on a text
  // that is no such file.
  static Result<Shape> of_fabric(const std::string& json, const std::vector<std::string>& wanted);
  // Reads MESH_TOPOLOGY's word for a cluster: lineN and ringN reach their neighbours only, pair2
  // and triangle2 have two cables between hosts, any other word one. Without a word every host
  // reaches every other host over as many cables as one likes.
  static Result<Shape> of_cluster(const std::string& topology, std::size_t world, std::string& why);

  std::size_t hosts() const noexcept { return hosts_; }
  int cables(std::size_t a, std::size_t b) const noexcept { return cables_[a * hosts_ + b]; }
  bool connected() const noexcept;  // any two hosts at all
  void join(std::size_t a, std::size_t b, int cables);

 private:
  std::size_t hosts_;
  std::vector<int> cables_;
};

// The ranks of the cluster on which the hosts of a scenario run: the first choice in which hosts
// that reach each other in the scenario do so in the cluster. A scenario whose hosts do not reach
// each other at all needs such hosts in the cluster too.
struct Placement {
  std::vector<std::size_t> ranks;  // empty: it cannot run
  std::string reason;              // why not: "needs 3 hosts, here are 2"
};
Placement place(const Shape& wanted, const Shape& cluster);

}  // namespace mesh::e2e
