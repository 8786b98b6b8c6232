// The leverage engines by name. A new engine is one file that implements LeverageEngine and one line in
// engine_registry.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/leverage/leverage_engine.h"

namespace fulcrum::leverage {

/// What an engine holds of a class's kernel.
enum class KernelForm {
  kMatrix,     ///< all of it, in memory
  kTiles,      ///< its products, recomputed
  kLandmarks,  ///< its columns at some rows (landmark_engine.h)
};

struct Engine {
  std::string name;
  std::string summary;  ///< one line for help texts
  KernelForm form = KernelForm::kMatrix;
  std::function<std::unique_ptr<LeverageEngine>(const EngineParts&)> make;
};

// Implemented next to each engine.
std::unique_ptr<LeverageEngine> MakeAutoEngine(const EngineParts& parts);
std::unique_ptr<LeverageEngine> MakeDenseEngine(const EngineParts& parts);
std::unique_ptr<LeverageEngine> MakeKrylovEngine(const EngineParts& parts);
std::unique_ptr<LeverageEngine> MakeTiledEngine(const EngineParts& parts);
std::unique_ptr<LeverageEngine> MakeLandmarkEngine(const EngineParts& parts);

const std::vector<Engine>& Engines();
/// Of an engine that there is; auto counts as one that wants a matrix until ChooseEngine has decided.
KernelForm FormOf(std::string_view engine);
/// The engine of that name, or an error that lists the names there are.
absl::StatusOr<const Engine*> FindEngine(std::string_view name);

}  // namespace fulcrum::leverage
