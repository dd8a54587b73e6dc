#pragma once
// A valid profile as JSON, which a test changes in one place. Thread: any.

#include <nlohmann/json.hpp>

#include <string>

namespace mesh::tuning::testkit {

inline nlohmann::json right_profile() {
  return nlohmann::json::parse(R"({
    "format": "nccl-mesh-profile", "version": 1,
    "measured": {"kind": "rdma", "when": "2026-11-21T01:02:03Z", "how": "mesh_tune",
       "label": "rdma",
                 "devices": ["d0", "d1"], "rails": 2, "speed_mbps": 100000, "mtu": 4096},
    "settings": {"qps": 2, "express_bytes": 4096, "wr_bytes": 262144, "inflight_bytes": 4194304},
    "sizes": [{"bytes": 65536, "figure": "one way", "default_us": 12.5, "tuned_us": 11.25,
       "spread": 0.01}]})");
}

}  // namespace mesh::tuning::testkit
