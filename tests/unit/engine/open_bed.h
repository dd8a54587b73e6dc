#pragma once
// A bed of the fabric that a test names, and links between any of its hosts. Thread: one.

#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh::testkit {

class OpenBed : public testing::Test {
 protected:
  // Each buffer of a talk has `bytes`.
  explicit OpenBed(std::size_t bytes, std::uint64_t tick_ns = 10'000)
      : bytes_(bytes), tick_ns_(tick_ns) {}

  void open(std::string fabric, BedOptions options = {.rails = "auto"}) {
    fabric_ = std::move(fabric);
    options.fabric = fabric_.c_str();
    bed_ = std::make_unique<Bed>(options);
    bed_->tick_ns = tick_ns_;
    set_log_level(LogLevel::Info);
  }
  std::unique_ptr<Talk> talk(std::size_t from, std::size_t to) {
    return std::make_unique<Talk>(*bed_, Seat{from, 0}, Seat{to, 0}, bytes_);
  }
  void port(std::size_t host, const char* nic, bool up) { bed_->hosts[host].port(nic, up); }
  static void end(Talk& talk) { talk.end(); }
  void end_all() {
    for (const auto& each : talks_) each->end();
    talks_.clear();
    EXPECT_TRUE(bed_->empties());
  }
  void end_all(Talk& talk) { talk.end(), end_all(); }

  LogCapture log_;
  std::string fabric_;
  std::unique_ptr<Bed> bed_;
  std::vector<std::unique_ptr<Talk>> talks_;  // between neighbours

 private:
  const std::size_t bytes_;
  const std::uint64_t tick_ns_;
};

}  // namespace mesh::testkit
