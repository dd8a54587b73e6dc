#pragma once
// mesh_tune on two ranks with the plugin between them: rank 0 says what is measured, both do it.
// Every round starts the plugin anew, because it reads its settings once. Thread: one owner. Every
// wait is bounded by the patience given.

#include "perf/driver/bootstrap.h"
#include "perf/driver/net_api.h"
#include "perf/mesh_tune/bench.h"

#include <memory>
#include <string>

namespace mesh::tune {

struct LiveOptions {
  std::string plugin;
  std::string fabric_name;  // of the software fabric's file; empty: RDMA
  bool emulated = false;    // in a lab of emulated machines
};

class LiveBench final : public Bench {
 public:
  // Returns null if it fails; `why` says why. Both ranks call it at the same time.
  static std::unique_ptr<LiveBench> open(const LiveOptions& options, driver::Bootstrap& bootstrap,
                                         std::string& why);

  std::vector<double> measure(const tuning::KnobValues& settings, std::span<const Point> points,
                              std::string& why) override;
  const MeasuredOn& ground() const override { return ground_; }
  bool is_noisy() const override { return true; }

  void finish();                  // rank 0: lets rank 1 end
  bool follow(std::string& why);  // rank 1: serves until rank 0 finishes; false: it failed

 private:
  LiveBench(const LiveOptions& options, driver::Bootstrap& bootstrap)
      : options_(options), bootstrap_(bootstrap) {}
  bool find_ground(std::string& why);
  std::vector<double> run(const std::string& order, std::string& why);

  const LiveOptions options_;
  driver::Bootstrap& bootstrap_;
  std::unique_ptr<driver::NetApi> api_;
  MeasuredOn ground_;
};

}  // namespace mesh::tune
