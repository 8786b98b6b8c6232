#include "stages/leverage/engine_registry.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stages/linalg/dense_eigensolver.h"
#include "stages/linalg/krylov_eigensolver.h"

namespace fulcrum::leverage {
namespace {

using linalg::SymmetricOperator;
using linalg::TopEigenRequest;

absl::StatusOr<linalg::TopEigen> SolveDense(const SymmetricOperator& kernel, const TopEigenRequest& request) {
  if (kernel.Dense().empty()) {
    return absl::FailedPreconditionError("the dense engine needs the kernel matrix in memory; choose another --engine");
  }
  return linalg::SolveTopEigenDense(kernel.Dense(), request);
}

absl::StatusOr<linalg::TopEigen> SolveKrylov(const SymmetricOperator& kernel, const TopEigenRequest& request) {
  return linalg::SolveTopEigenKrylov(kernel, request);
}

}  // namespace

const std::vector<Engine>& Engines() {
  static const auto* const engines = new std::vector<Engine>{
      {"auto", "krylov, which hands over to dense by itself where that is faster", SolveKrylov},
      {"dense", "full eigendecomposition: exact, slow beyond a few thousand rows a class", SolveDense},
      {"krylov", "block Krylov: exact to 5e-9, only as much of the spectrum as tau asks for", SolveKrylov},
  };
  return *engines;
}

absl::StatusOr<const Engine*> FindEngine(std::string_view name) {
  for (const Engine& engine : Engines()) {
    if (engine.name == name) return &engine;
  }
  const std::string names =
      absl::StrJoin(Engines(), ", ", [](std::string* out, const Engine& engine) { out->append(engine.name); });
  return absl::InvalidArgumentError(
      absl::StrFormat("there is no leverage engine '%s'; choose one of: %s", std::string(name), names));
}

}  // namespace fulcrum::leverage
