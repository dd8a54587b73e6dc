#pragma once
// How slow the world is in which a test runs: sanitizers and emulated machines take their time.
// Bars on time are scaled, and less data is moved where data takes long; every check stays. Thread:
// any.

#include "perf/driver/communicator.h"
#include "tests/prelude.h"

namespace mesh::e2e {

// Ends a wait that hangs. Every wait takes less than a thirtieth of this if nothing is slow.
inline constexpr driver::milliseconds kPatience{60000};

// Returns whether hosts are emulated machines (MESH_LAB; some 30 MB/s, 300 us).
bool emulated();

double slowness();  // 1 where nothing is slow
driver::milliseconds scaled(driver::milliseconds time);
inline driver::milliseconds patience() { return scaled(kPatience); }

// Returns, for a promise about seconds, the bar on the clock of a machine that others use too:
// thirty times the promise. Manual clocks in tests/unit show that the promise itself is kept.
double clock_bar_s(double promised_s);
driver::milliseconds clock_bar(std::chrono::seconds promised);
// Returns, for a promise about seconds, the bar on one process' processor time: no more than the
// promise, since other processes do not count in it. An emulated machine counts them too, because
// it cannot see that it stands still while they run: its bar is the one on the clock.
double processor_bar_s(double promised_s);

// Returns a tenth of the repetitions between emulated machines, but not below four.
std::uint64_t trimmed(std::uint64_t count);
// Returns the largest size that is worth its time.
std::size_t largest(std::size_t bytes, std::size_t when_emulated);

}  // namespace mesh::e2e
