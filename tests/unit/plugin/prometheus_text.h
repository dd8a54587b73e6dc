#pragma once
// Reads Prometheus' text format as strictly as our pages must keep it: each family in one piece,
// HELP and TYPE before their samples, no sample twice, counters that end in _total, histograms
// whose buckets grow and add up, valid escapes and numbers.

#include "tests/prelude.h"

namespace mesh::testkit {

using MetricLabels = std::map<std::string, std::string>;

struct MetricSample {
  MetricLabels labels;
  double value = 0;
};

struct MetricFamily {
  std::string help, type;
  std::vector<MetricSample> samples;
};

using MetricsPage = std::map<std::string, MetricFamily>;

// Throws std::runtime_error with the number of the bad line and the reason.
MetricsPage parse_metrics(const std::string& text);

// Returns the sum of the samples that have all these labels. Throws std::runtime_error if there is
// none.
double metric(const MetricsPage& page, const std::string& name, const MetricLabels& with = {});

}  // namespace mesh::testkit
