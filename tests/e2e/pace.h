#pragma once
// How fast the world is in which a test runs: sanitizers and emulated machines take their time.
// Bars on time are scaled, and where data is what takes long there is less of it; what is checked
// stays the same. Thread: any.

#include "perf/driver/communicator.h"

#include <cstddef>
#include <cstdint>

namespace mesh::e2e {

// Ends what hangs. Whatever is waited for takes less than a thirtieth of it where nothing is slow.
inline constexpr driver::milliseconds kPatience{60000};

// MESH_LAB: hosts are emulated machines (some 30 MB/s, 300 us).
bool emulated();

double slowness();  // 1 where nothing is slow
driver::milliseconds scaled(driver::milliseconds time);
inline driver::milliseconds patience() { return scaled(kPatience); }

// A promise about seconds, as a bar on the clock of a machine that others use too: thirty times as
// much. That the promise itself is kept is shown with manual clocks, in tests/unit.
double clock_bar_s(double promised_s);
driver::milliseconds clock_bar(std::chrono::seconds promised);
// A promise about seconds, as a bar on the processor time of one process: no more than promised,
// since others do not count in it. Only an emulated machine counts them too, because it cannot see
// that it stands still while they run: there it is the bar on the clock.
double processor_bar_s(double promised_s);

// A tenth of the repetitions between emulated machines, but not below four.
std::uint64_t trimmed(std::uint64_t count);
// The largest size worth its time.
std::size_t largest(std::size_t bytes, std::size_t when_emulated);

}  // namespace mesh::e2e
