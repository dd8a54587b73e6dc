#pragma once
// The fields of a histogram in the snapshot, for snapshot_fields.h. Its quantiles are written, and
// not read. Thread: any (pure). Bound: the values'.

#include <mesh/latency.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::fields {

// A bucket of a histogram that has samples. 0 stands for no bound.
struct BucketRow {
  std::uint64_t up_to_ns = 0, count = 0;
};

inline std::uint64_t bound_of(std::size_t bucket) {
  const auto& bounds = LatencyHistogram::kBounds;
  return bucket < bounds.size() ? bounds[bucket] : 0;
}

inline std::vector<BucketRow> rows_of(const LatencyHistogram& latency) {
  std::vector<BucketRow> rows;
  for (std::size_t i = 0; i < latency.counts.size(); ++i) {
    if (latency.counts[i] != 0) rows.push_back({bound_of(i), latency.counts[i]});
  }
  return rows;
}

// Leaves out bounds that this program does not have.
inline decltype(LatencyHistogram::counts) counts_of(const std::vector<BucketRow>& rows) {
  decltype(LatencyHistogram::counts) counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (const BucketRow& row : rows) {
      if (row.up_to_ns == bound_of(i)) counts[i] = row.count;
    }
  }
  return counts;
}

template <typename Visitor>
void visit(Visitor& field, BucketRow& row) {
  field("up_to_ns", row.up_to_ns, "Upper bound of the bucket; 0: it has none.");
  field("count", row.count, "Samples in this bucket alone.");
}

template <typename Visitor>
void visit(Visitor& field, LatencyHistogram& latency) {
  std::uint64_t samples = latency.total();
  std::uint64_t p50_ns = latency.quantile_ns(0.5), p99_ns = latency.quantile_ns(0.99);
  std::vector<BucketRow> buckets = rows_of(latency);
  field("samples", samples, "Number of samples.");
  field("sum_ns", latency.sum_ns, "Sum of their times.");
  field("p50_ns", p50_ns, "Median since the start, from the buckets; 0: no sample.");
  field("p99_ns", p99_ns, "99th percentile since the start, from the buckets.");
  field("buckets", buckets, "Buckets that have samples.");
  latency.counts = counts_of(buckets);
}

}  // namespace mesh::fields
