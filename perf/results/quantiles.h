#pragma once
// Computes the figures of a result file from samples. Thread: any.

#include "perf/results/result.h"

#include <vector>

namespace mesh::results {

// Returns the nearest rank: the smallest sample that at least `share` of all do not exceed. Samples
// rising, at least one; share 0..1.
double quantile(const std::vector<double>& rising, double share);

// Returns nothing without samples. With fewer than 1000, p99.9 is the largest.
std::optional<Latency> latency_of(std::vector<double> samples_us);

}  // namespace mesh::results
