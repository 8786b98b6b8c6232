// The engine that recomputes the kernel of a class at every product: krylov without a matrix.
//
// Between rounds it keeps the last subspace alone.

#include <memory>
#include <optional>
#include <utility>

#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/leverage/leverage_scores.h"

namespace fulcrum::leverage {
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
