#pragma once
// This host's end of one cable while it is measured: a communicator on exactly the rails of the
// step, a connection each way, and the messages. Thread: one owner. Bound: the times of
// ProbeTimes.

#include "perf/driver/communicator.h"
#include "perf/driver/net_api.h"
#include "perf/driver/own_process.h"
#include "src/base/snapshot_json.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::doctor {

struct ProbeTimes {
  std::chrono::milliseconds flood{1000};
  int round_trips = 1000;
  std::chrono::milliseconds patience{8000};  // for a connection, and for each kind of message
};

struct ProbeStep {
  std::vector<std::string> rails;  // of this host, "mlx5_0:1"
  std::uint32_t mtu = 4096;        // of the path
  std::uint32_t speed_mbps = 0;    // of the slower port
  bool serves = false;             // true: of the two ends this is the one that begins
  bool alone = false;              // each direction is measured alone, too
};

// The result of one end.
struct Seen {
  std::string failed;        // what did not work, "the connection"; empty: all did
  std::string why;           // the plugin's result
  double alone_gbps = 0;     // of payload, while only the other end sent; 0: not measured
  double received_gbps = 0;  // of payload, while both ends sent
  double latency_us = 0;     // half of the median round trip of 8 bytes; the serving end's
  std::string port_down;     // "rail p0:1: its port went down"; empty: no port did
  std::string black_hole;    // the path on which small packets pass and full ones do not
  std::string said;          // the plugin's words about what went wrong
};
std::string to_text(const Seen& seen);
// Notes the ports and paths that were lost, as the plugin tells them.
void note_trouble(const Snapshot& snapshot, Seen& seen);
Seen seen_from(const std::string& text);  // a text that is not of to_text() is a failure

class Probe {
 public:
  Probe(driver::NetApi& api, const ProbeStep& step, const ProbeTimes& times);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  std::string open();                   // our handle, for the other end; empty: there is none
  Seen run(const std::string& handle);  // the other end's

 private:
  struct Memory;
  bool fail(const char* what, int result);
  bool connect(const std::string& handle);
  bool measure();
  bool full_packets(const Memory& memory);
  bool round_trips(const Memory& memory);
  bool floods(const Memory& memory);
  bool flood(const Memory& memory, bool sends, double& received_gbps);
  void close();

  driver::NetApi& api_;
  const ProbeStep step_;
  const ProbeTimes times_;
  std::unique_ptr<driver::StepVariables> settings_;
  std::unique_ptr<driver::Communicator> communicator_;
  driver::Listening listening_;
  void* send_ = nullptr;
  void* recv_ = nullptr;
  Seen seen_;
};

}  // namespace mesh::doctor
