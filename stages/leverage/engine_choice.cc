#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stages/core/status_macros.h"
#include "stages/leverage/landmarks.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/leverage/leverage_scores.h"

namespace fulcrum::leverage {
namespace {

// Useful operations of one core per second, for all engines. bench_large's tiled-pass shows 21e9 on one of two
// idle cores with AVX2; newer ones do more.
constexpr double kOperationsPerSecond = 25e9;
// Landmarks take about twenty seconds if the exact engines take a minute; more time is not worth the accuracy.
constexpr double kMostSeconds = 60;
// Products that the exact engines need, and how many of them a tiled pass serves.
constexpr double kUsualProducts = 400;
constexpr double kTiledWidth = 32;
constexpr std::size_t kFewestTiledVectors = 192;
// With refinement, this many landmarks are better than any number without (docs/large-pools.md).
constexpr std::size_t kEnoughToRefine = 1000;

std::size_t MatrixBytes(std::size_t rows) {
  // Room for new rows, and the basis of the solver.
  return sizeof(double) * rows * (rows + rows / 16 + 1000);
}

std::size_t TiledBytes(const ClassSize& size, std::size_t vectors) {
  // The basis and its products; then the working memory and the result of the solver.
  return sizeof(double) * size.rows * (size.dims + 4 * vectors);
}

double TiledSeconds(const ClassSize& size) {
  const auto m = static_cast<double>(size.rows);
  const double pass = m * m * (static_cast<double>(size.dims) + 2 * kTiledWidth + 16);
  return pass * kUsualProducts / kTiledWidth / (kOperationsPerSecond * static_cast<double>(size.threads));
}

double MatrixSeconds(const ClassSize& size) {
  const auto m = static_cast<double>(size.rows);
  return m * m * (static_cast<double>(size.dims) + 2 * kUsualProducts) /
         (kOperationsPerSecond * static_cast<double>(size.threads));
}

double LandmarkSeconds(const ClassSize& size, std::size_t landmarks) {
  const auto m = static_cast<double>(size.rows), n = static_cast<double>(landmarks);
  return n * (m * (static_cast<double>(size.dims) + n / 2 + 16) + 10 * n * n) /
         (kOperationsPerSecond * static_cast<double>(size.threads));
}

std::string Mebibytes(std::size_t bytes) {
  return absl::StrFormat("%d MiB", bytes >> 20);
}

/// The default for the class, or as many as fit into memory.
std::size_t AffordableLandmarks(const ClassSize& size, std::size_t memory) {
  std::size_t count = DefaultLandmarks(size.rows);
  while (count > 1 && LandmarkBytes(count, size.dims) > memory) count -= std::max<std::size_t>(1, count / 16);
  return count;
}

/// Whether there is time and memory for refining and for enough landmarks.
bool CanBeRefined(const ClassSize& size, std::size_t memory) {
  const std::size_t needed = RefinementBytes(size.rows, size.dims) +
                             LandmarkBytes(std::min(kEnoughToRefine, DefaultLandmarks(size.rows)), size.dims);
  return size.may_refine && IsRefinable(size.rows, size.dims) && needed <= memory;
}

EngineChoice ChooseByItself(const ClassSize& size, std::size_t memory) {
  if (MatrixBytes(size.rows) <= memory && MatrixSeconds(size) <= kMostSeconds) {
    return {"krylov", KernelForm::kMatrix, ""};
  }
  const std::string without =
      absl::StrFormat("a kernel matrix of %d rows needs %s", size.rows, Mebibytes(MatrixBytes(size.rows)));
  if (TiledBytes(size, kFewestTiledVectors) <= memory && TiledSeconds(size) <= kMostSeconds) {
    return {"tiled", KernelForm::kTiles, without + absl::StrFormat(", there are %s", Mebibytes(memory))};
  }
  return {"landmark", KernelForm::kLandmarks,
          absl::StrFormat("%s, and recomputing it about %.0f s", without, TiledSeconds(size))};
}

}  // namespace

absl::StatusOr<EngineChoice> ChooseEngine(const std::string& asked, const ClassSize& size) {
  const std::size_t memory = size.memory_bytes > 0 ? size.memory_bytes : std::numeric_limits<std::size_t>::max() / 2;
  EngineChoice choice{asked, FormOf(asked), ""};
  if (asked == "auto") choice = ChooseByItself(size, memory);
  if (choice.form == KernelForm::kMatrix && MatrixBytes(size.rows) > memory) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("the %s engine keeps a kernel matrix, and that of %d rows needs %s, but a class may use %s; "
                        "allow more memory, or "
                        "use the engine auto, which chooses one without a matrix if necessary",
                        asked, size.rows, Mebibytes(MatrixBytes(size.rows)), Mebibytes(memory)));
  }
  if (choice.form == KernelForm::kLandmarks) {
    choice.refine = CanBeRefined(size, memory);
    choice.landmarks = AffordableLandmarks(size, memory - (choice.refine ? RefinementBytes(size.rows, size.dims) : 0));
  }
  if (choice.form == KernelForm::kTiles && size.memory_bytes > 0) choice.basis_bytes = memory / 2;
  choice.seconds = choice.form == KernelForm::kMatrix  ? MatrixSeconds(size)
                   : choice.form == KernelForm::kTiles ? TiledSeconds(size)
                                                       : LandmarkSeconds(size, choice.landmarks);
  return choice;
}

ClassSize SizeOfClass(const kernel::Features& features, std::size_t rows, const ClassRequest& request) {
  // A sparse row is about as much work as a dense one of this length.
  constexpr std::size_t kDimsOfSparseRows = 256;
  const bool dense = features.kind() == kernel::FeatureKind::kDense;
  return {.rows = rows,
          .dims = dense ? features.dims() : std::min(features.dims(), kDimsOfSparseRows),
          .memory_bytes = request.memory_bytes,
          .threads = request.threads,
          .may_refine = request.may_refine};
}

namespace {

/// Chooses in every round. A class may outgrow its engine: what that one kept is freed before another begins, except
/// the subspace of the last round, which krylov and tiled take over from each other.
class AutoEngine final : public LeverageEngine {
 public:
  explicit AutoEngine(const EngineParts& parts)
      : kernel_(parts.kernel), features_(&parts.features), stream_(parts.stream) {}

  absl::StatusOr<ClassScores> Score(std::span<const RowIndex> rows, const ClassRequest& request) override {
    FULCRUM_ASSIGN_OR_RETURN(const EngineChoice choice,
                             ChooseEngine("auto", SizeOfClass(*features_, rows.size(), request)));
    if (choice.engine != name_) {
      engine_.reset();
      name_ = choice.engine;
      if (choice.form == KernelForm::kLandmarks || subspace_ == nullptr) subspace_ = std::make_shared<WarmStart>();
      FULCRUM_ASSIGN_OR_RETURN(engine_, MakeLeverageEngine(name_, {kernel_, *features_, stream_, subspace_}));
    }
    FULCRUM_ASSIGN_OR_RETURN(ClassScores result, engine_->Score(rows, request));
    if (!choice.reason.empty()) result.reason = absl::StrCat(choice.reason, ": ", result.reason);
    return result;
  }

  void MoveTo(const kernel::Features& grown) override {
    features_ = &grown;
    if (engine_ != nullptr) engine_->MoveTo(grown);
  }

  std::span<const RowIndex> landmarks() const override {
    return engine_ != nullptr ? engine_->landmarks() : std::span<const RowIndex>();
  }

 private:
  const kernel::KernelFunction kernel_;
  const kernel::Features* features_;
  const BlockStream& stream_;
  std::string name_;
  std::shared_ptr<WarmStart> subspace_;
  std::unique_ptr<LeverageEngine> engine_;
};

}  // namespace

std::unique_ptr<LeverageEngine> MakeAutoEngine(const EngineParts& parts) {
  return std::make_unique<AutoEngine>(parts);
}

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
