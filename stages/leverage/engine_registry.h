// The leverage engines by name. A new engine is one file and one line in engine_registry.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

/// What an engine wants of a class's kernel.
enum class KernelForm {
  kMatrix,     ///< all of it, in memory
  kTiles,      ///< its products, recomputed
  kLandmarks,  ///< its columns at some rows (landmark_engine.h)
};

struct Engine {
  std::string name;
  std::string summary;  ///< one line for help texts
  KernelForm form = KernelForm::kMatrix;
  /// Of the whole kernel, by its products; landmark has no such thing.
  std::function<absl::StatusOr<linalg::TopEigen>(const linalg::SymmetricOperator&, const linalg::TopEigenRequest&)>
      solve;
};

const std::vector<Engine>& Engines();
/// Of an engine that there is; auto counts as one that wants a matrix until ChooseEngine has decided.
KernelForm FormOf(std::string_view engine);
/// The engine of that name, or an error that lists the names there are.
absl::StatusOr<const Engine*> FindEngine(std::string_view name);

}  // namespace fulcrum::leverage
