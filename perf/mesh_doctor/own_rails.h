#pragma once
// The rails of this host as the engine would tell them, read with a provider of our own while the
// plugin has none open. Thread: one owner. Bound: the host's rails.

#include "perf/mesh_doctor/cable_finder.h"
#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/host_facts.h"

#include <mesh/config.h>
#include "src/verbs/discovery.h"

#include <memory>
#include <vector>

namespace mesh::doctor {

class OwnRails {
 public:
  // Reads the rails. There are none if no rail is usable, no card answers, or a setting of the
  // plugin's is wrong.
  static OwnRails read(const HostFacts& facts);
  static OwnRails none(const HostFacts& facts);  // for a host whose plugin does not load

  const HostRails& rails() const noexcept { return rails_; }
  // Returns the pairs of the connector's rails and ours that meet, by subnet and by our routes.
  Meeting meeting_with(const HostRails& connector, const topo::CableProof& proof) const;
  const CableEnds& ends() const noexcept { return ends_; }

 private:
  OwnRails() = default;
  void open_ends();
  void note_paces(const HostFacts& facts, const Settings& settings);

  std::unique_ptr<verbs::Provider> provider_;
  std::vector<verbs::Rail> found_;
  CableEnds ends_;
  HostRails rails_;
};

}  // namespace mesh::doctor
