#pragma once
// Plants mistakes in the fake plugin, through an exported function that a test finds with dlsym in
// the loaded library. Thread: any.

namespace mesh::fake {

enum class Fault : int { None, ShiftByOne, DropCompletion, Truncate, FailTest };

using PlantFunction = void (*)(int fault);
inline constexpr const char* kPlantSymbol = "fake_plugin_plant";

}  // namespace mesh::fake
