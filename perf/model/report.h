#pragma once
// The table on stdout, and the result file. Thread: one.

#include "perf/model/options.h"
#include "perf/results/result.h"
#include "src/soft/wire_model.h"

#include <string>
#include <vector>

namespace mesh::model {

struct Row {
  std::size_t bytes = 0;
  Load load;
  Throughput throughput;
  results::Latency latency_us;
};

class Report {
 public:
  Report(const Options& options, const Experiment& experiment,
         const std::vector<std::string>& arguments);
  void print_header() const;
  void add(const Row& row);
  bool finish() const;  // the footer and, if asked for, the file; false: it could not be written

 private:
  results::Series series(const std::string& operation, std::uint32_t outstanding) const;
  results::File file() const;

  const Options& options_;
  const std::vector<std::string> arguments_;
  const std::string topology_;
  const std::uint32_t qps_;      // of the policy, where the settings leave it open
  const soft::Goodput ceiling_;  // 0: none
  std::vector<Row> rows_;
};

}  // namespace mesh::model
