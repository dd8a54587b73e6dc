#pragma once
// How a test plants mistakes in the fake plugin: an exported function, found with dlsym in the
// loaded library. Thread: any.

namespace mesh::fake {

enum class Fault : int { None, SwapStripes, ShiftByOne, DropCompletion, Truncate, FailTest };

using PlantFunction = void (*)(int fault);
inline constexpr const char* kPlantSymbol = "fake_plugin_plant";

}  // namespace mesh::fake
