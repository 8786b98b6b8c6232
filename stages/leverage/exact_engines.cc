// Engines that hold the kernel matrix of a class in memory: dense (full decomposition) and krylov.
//
// Between rounds the matrix is updated by the rows that entered and left, and the last subspace starts the next run.
#include <memory>
#include <optional>
#include <utility>

#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/leverage/leverage_scores.h"

namespace fulcrum::leverage {
namespace {

class MatrixEngine final : public LeverageEngine {
 public:
  MatrixEngine(std::string name, const EngineParts& parts)
      : name_(std::move(name)),
        kernel_(parts.kernel),
        features_(&parts.features),
        subspace_(parts.last_subspace ? parts.last_subspace : std::make_shared<WarmStart>()) {}

  absl::StatusOr<ClassScores> Score(std::span<const RowIndex> rows, const ClassRequest& request) override {
    FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(kernel_, features_->squared_norms(), rows));
    if (name_ != "dense") {
      FULCRUM_ASSIGN_OR_RETURN(std::optional<ClassScores> low_rank,
                               ScoreLowRank(kernel_, *features_, rows, request.tau));
      if (low_rank) {
        low_rank->engine = name_;
        return *std::move(low_rank);
      }
    }
    // Only now: a kernel of a low rank needs no matrix.
    FULCRUM_RETURN_IF_ERROR(ChooseEngine(name_, SizeOfClass(*features_, rows.size(), request)).status());
    if (!matrix_) matrix_.emplace(kernel_, *features_);
    matrix_->Update(rows);
    const StartSubspace start = subspace_->For(*matrix_);
    FULCRUM_ASSIGN_OR_RETURN(linalg::TopEigen eigen,
                             SolveLeadingSpace(linalg::DenseSymmetricOperator(matrix_->matrix()),
                                               {.tau = request.tau,
                                                .engine = name_,
                                                .seed = request.seed,
                                                .start = start.vectors.view(),
                                                .start_multiplied = start.multiplied.view(),
                                                .dense_at_once = start.dense_at_once}));
    ClassScores result = ScoresOf(eigen, matrix_->rows());
    result.warm = !start.vectors.empty();
    result.kernel = matrix_->matrix();
    subspace_->Remember(matrix_->rows(), std::move(eigen));
    return result;
  }

  void MoveTo(const kernel::Features& grown) override {
    features_ = &grown;
    if (matrix_) matrix_->MoveTo(grown);
  }

 private:
  const std::string name_;
  const kernel::KernelFunction kernel_;
  const kernel::Features* features_;
  std::optional<kernel::RowSetKernel> matrix_;
  const std::shared_ptr<WarmStart> subspace_;
};

}  // namespace

std::unique_ptr<LeverageEngine> MakeDenseEngine(const EngineParts& parts) {
  return std::make_unique<MatrixEngine>("dense", parts);
}

std::unique_ptr<LeverageEngine> MakeKrylovEngine(const EngineParts& parts) {
  return std::make_unique<MatrixEngine>("krylov", parts);
}

namespace {

class TiledEngine final : public LeverageEngine {
 public:
  explicit TiledEngine(const EngineParts& parts)
      : kernel_(parts.kernel),
        features_(&parts.features),
        stream_(parts.stream),
        subspace_(parts.last_subspace ? parts.last_subspace : std::make_shared<WarmStart>()) {}

  absl::StatusOr<ClassScores> Score(std::span<const RowIndex> rows, const ClassRequest& request) override {
    FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(kernel_, features_->squared_norms(), rows));
    FULCRUM_ASSIGN_OR_RETURN(const EngineChoice choice,
                             ChooseEngine("tiled", SizeOfClass(*features_, rows.size(), request)));
    FULCRUM_ASSIGN_OR_RETURN(std::optional<ClassScores> low_rank, ScoreLowRank(kernel_, *features_, rows, request.tau));
    if (low_rank) {
      low_rank->engine = "tiled";
      return *std::move(low_rank);
    }
    const kernel::TiledKernel tiles(kernel_, *features_, rows, stream_);
    const StartSubspace start = subspace_->For(tiles);
    FULCRUM_ASSIGN_OR_RETURN(linalg::TopEigen eigen,
                             SolveLeadingSpace(tiles, {.tau = request.tau,
                                                       .engine = "tiled",
                                                       .seed = request.seed,
                                                       .start = start.vectors.view(),
                                                       .start_multiplied = start.multiplied.view(),
                                                       .basis_bytes = choice.basis_bytes}));
    ClassScores result = ScoresOf(eigen, rows);
    result.warm = !start.vectors.empty();
    subspace_->Remember(rows, std::move(eigen));
    return result;
  }

  void MoveTo(const kernel::Features& grown) override { features_ = &grown; }

 private:
  const kernel::KernelFunction kernel_;
  const kernel::Features* features_;
  const BlockStream& stream_;
  const std::shared_ptr<WarmStart> subspace_;
};

}  // namespace

std::unique_ptr<LeverageEngine> MakeTiledEngine(const EngineParts& parts) {
  return std::make_unique<TiledEngine>(parts);
}

}  // namespace fulcrum::leverage
