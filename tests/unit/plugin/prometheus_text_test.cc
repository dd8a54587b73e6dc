#include "tests/unit/plugin/prometheus_text.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace mesh::plugin {
namespace {

using testkit::parse_metrics;

TEST(PrometheusText, WhatIsWrongIsRefused) {
  const std::string good = "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\"} 1\n";
  EXPECT_NO_THROW(parse_metrics(good));
  EXPECT_NO_THROW(
      parse_metrics("# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 1\n"
                    "a_bucket{le=\"+Inf\"} 2\na_sum 3\na_count 2\n"));
  for (const char* bad :
       {"",
        "a 1",
        "a 1\n",
        "# HELP a x\n",
        "# HELP a \n# TYPE a gauge\n",
        "# TYPE a gauge\na 1\n",
        "# HELP a x\n# TYPE a counter\na 1\n",
        "# HELP a_total x\n# TYPE a_total gauge\na_total 1\n",
        "# HELP a x\n# TYPE a summary\na 1\n",
        "# HELP a x\n# TYPE a gauge\na 1x\n",
        "# HELP a x\n# TYPE a gauge\na{l=\"v} 1\n",
        "# HELP a x\n# TYPE a gauge\na{l=\"\\t\"} 1\n",
        "# HELP a x\n# TYPE a gauge\na{l=\"1\",l=\"1\"} 1\n",
        "# HELP a x\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a x\n# TYPE a gauge\n# HELP b x\n# TYPE b gauge\na 1\n",
        "# HELP a x\n# TYPE a gauge\n\na 1\n",
        "# HELP a x\n# TYPE a histogram\na 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_count 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_count 2\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"2\"} 1\na_bucket{le=\"1\"} 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"2\"} 1\n"}) {
    EXPECT_THROW(parse_metrics(bad), std::runtime_error) << bad;
  }
}

}  // namespace
}  // namespace mesh::plugin
