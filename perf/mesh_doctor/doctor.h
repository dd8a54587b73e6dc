#pragma once
// One run of the doctor in one process: its command line, and the run, which reads the facts of
// this host, shares them with the other hosts, looks at what lies between them, and reports on
// rank 0. Thread: one owner. Bound: the timeout of the options.

#include "perf/driver/world.h"
#include "perf/mesh_doctor/map.h"
#include "perf/mesh_doctor/report.h"

#include <string>
#include <vector>

namespace mesh::doctor {

struct Options : driver::RankOptions {
  bool as_json = false;
  bool quick = false;
  bool verbose = false;
  std::string expect_file;             // the cabling that should be; empty: none is expected
  std::vector<ExpectedPair> expected;  // what rank 0 has read there
  std::string map_file;                // where the found cabling is written; empty: nowhere
  std::string svg_file;                // where the cabling map is drawn; empty: nowhere
  std::string plugin;
  std::string root = "/";  // the folder that is read as the host's file system
  std::string fabric;      // file of a software fabric whose hosts are looked at; empty: this host
  std::vector<std::string> hosts;  // of that file; empty: all
  double threshold = 0.8;          // the share of the expected rate that is enough
  int patience_s = 8;              // how long to wait for what should come over a cable
  int timeout_s = 600;
  int wait_s = 60;  // how long to wait for the other hosts

  bool launches() const noexcept { return !fabric.empty() && !launched; }
};

// Returns false if the process must end with *exit_code; --help and mistakes have been printed.
bool parse_options(int argc, char** argv, Options& options, int* exit_code);

int run_doctor(const Options& options);  // the exit status

}  // namespace mesh::doctor
