#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stages/core/status_macros.h"
#include "stages/leverage/leverage_engine.h"

namespace fulcrum::leverage {
const std::vector<Engine>& Engines() {
  static const auto* const engines = new std::vector<Engine>{
      {"auto", "krylov while the kernel matrix fits into memory, then tiled, then landmark; the report says why",
       KernelForm::kMatrix, MakeAutoEngine},
      {"dense", "full eigendecomposition: exact, slow beyond a few thousand rows per class", KernelForm::kMatrix,
       MakeDenseEngine},
      {"krylov", "block Krylov: exact to 5e-9, only as much of the spectrum as tau asks for", KernelForm::kMatrix,
       MakeKrylovEngine},
      {"tiled", "krylov without a kernel matrix, which is recomputed at every product: up to 100,000 rows per class",
       KernelForm::kTiles, MakeTiledEngine},
      {"landmark", "approximate, from thousands of landmarks: any number of rows; says how good it is",
       KernelForm::kLandmarks, MakeLandmarkEngine},
  };
  return *engines;
}

KernelForm FormOf(std::string_view engine) {
  const auto found = FindEngine(engine);
  return found.ok() ? (*found)->form : KernelForm::kMatrix;
}

absl::StatusOr<const Engine*> FindEngine(std::string_view name) {
  for (const Engine& engine : Engines()) {
    if (engine.name == name) return &engine;
  }
  const std::string names =
      absl::StrJoin(Engines(), ", ", [](std::string* out, const Engine& engine) { out->append(engine.name); });
  return absl::InvalidArgumentError(
      absl::StrFormat("unknown leverage engine '%s'; choose one of: %s", std::string(name), names));
}

absl::StatusOr<std::unique_ptr<LeverageEngine>> MakeLeverageEngine(const std::string& name, const EngineParts& parts) {
  FULCRUM_ASSIGN_OR_RETURN(const Engine* engine, FindEngine(name));
  return engine->make(parts);
}

}  // namespace fulcrum::leverage
