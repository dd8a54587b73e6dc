#pragma once
// Reads Prometheus' text format as strictly as a page of ours must keep it: families in one piece,
// HELP and TYPE before their samples, no sample twice, counters that end in _total, escapes and
// numbers whole.

#include <map>
#include <string>
#include <vector>

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

// Throws std::runtime_error with the line's number and what is wrong with it.
MetricsPage parse_metrics(const std::string& text);

// Sum of the samples whose labels hold all of these; throws std::runtime_error where there is no
// such sample.
double metric(const MetricsPage& page, const std::string& name, const MetricLabels& with = {});

}  // namespace mesh::testkit
