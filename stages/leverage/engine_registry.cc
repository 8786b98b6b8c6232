#include "stages/leverage/engine_registry.h"

#include <algorithm>

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

// What a tile costs is shared by all vectors of a block, so wide blocks pay although they need more vectors.
constexpr std::size_t kTiledBlockWidth = 32;
constexpr std::size_t kTiledBasisBytes = std::size_t{448} << 20;
constexpr std::size_t kFewestTiledBlocks = 6;

absl::StatusOr<linalg::TopEigen> SolveTiled(const SymmetricOperator& kernel, const TopEigenRequest& request) {
  const std::size_t bytes = request.basis_bytes > 0 ? request.basis_bytes : kTiledBasisBytes;
  const std::size_t bytes_a_vector = 2 * sizeof(double) * std::max<std::size_t>(kernel.size(), 1);
  linalg::KrylovOptions options;
  options.name = "tiled";
  options.block_width = kTiledBlockWidth;
  options.largest_basis = std::max(bytes / bytes_a_vector, kFewestTiledBlocks * kTiledBlockWidth);
  options.kept_per_rank = 2;
  return linalg::SolveTopEigenKrylov(kernel, request, options);
}

absl::StatusOr<linalg::TopEigen> SolveNothing(const SymmetricOperator&, const TopEigenRequest&) {
  return absl::FailedPreconditionError(
      "the landmark engine looks at rows, not at a kernel matrix; choose another --engine");
}

}  // namespace

const std::vector<Engine>& Engines() {
  static const auto* const engines = new std::vector<Engine>{
      {"auto", "krylov while the kernel matrix fits into memory, then tiled, then landmark; the report says why",
       KernelForm::kMatrix, SolveKrylov},
      {"dense", "full eigendecomposition: exact, slow beyond a few thousand rows a class", KernelForm::kMatrix,
       SolveDense},
      {"krylov", "block Krylov: exact to 5e-9, only as much of the spectrum as tau asks for", KernelForm::kMatrix,
       SolveKrylov},
      {"tiled", "krylov without a kernel matrix, which is recomputed at every product: up to 100,000 rows a class",
       KernelForm::kTiles, SolveTiled},
      {"landmark", "approximate, from thousands of landmarks: any number of rows; says how good it is",
       KernelForm::kLandmarks, SolveNothing},
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
      absl::StrFormat("there is no leverage engine '%s'; choose one of: %s", std::string(name), names));
}

}  // namespace fulcrum::leverage
