// A leverage engine: scores the rows of one class, round after round.
//
// An engine owns what makes the next round cheap (a kernel matrix, a subspace to start from, landmarks), decides how to
// use the memory that a request allows, and states how good its scores are. Adding an engine takes one file that
// implements this interface and one line in engine_choice.cc. Not thread-safe; engines of different classes may run
// at the same time, and loops run in parallel inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::leverage {

/// What the scores of a class are computed from and what they may cost.
struct ClassRequest {
  double tau = 0.5;                         ///< share of the trace that the rank must reach, in (0, 1]
  std::uint64_t seed = 1;                   ///< of random starts and of landmarks
  std::size_t memory_bytes = 0;             ///< that this class may use; 0: no limit
  std::size_t threads = 1;                  ///< that this class has for itself
  std::size_t landmarks = 0;                ///< landmark: how many; 0: by size and memory
  std::span<const RowIndex> recalled = {};  ///< landmark: those of an earlier process, ascending, to begin with
  bool may_refine = true;                   ///< landmark: with the whole kernel, if that is affordable
  bool bounds_suffice = false;              ///< scores of an earlier round will do, with a bound on their error
};

struct ClassScores {
  RowList rows = {};                ///< the rows of the class in the engine's order
  std::vector<double> scores = {};  ///< l_i in the order of `rows`, not scaled
  std::size_t rank = 0;             ///< k
  double trace_share = 0;           ///< that the rank reaches
  double residual = 0;              ///< largest |K u - theta u| over the leading pairs, relative to the largest theta
  std::size_t products = 0;         ///< vectors multiplied by the kernel
  bool degenerate_cut = false;      ///< the rank ends inside equal eigenvalues: the scores are one choice of several
  bool warm = false;                ///< computed from what the last round left
  std::string engine = {};          ///< that answered; "none" for a class without rows
  std::string reason = {};          ///< why this engine, what it did and how good the scores are
  double slack = 0;                 ///< above 0: scores are of an earlier round, and none is off by more
  /// The scores that some of the rows have now; set if slack is above 0. Valid until the next Score.
  std::function<std::vector<double>(std::span<const RowIndex>)> rescore = {};
  /// The kernel matrix in the order of `rows` if the engine holds one, else empty. Valid until the next Score.
  ConstMatrixView kernel = {};
};

class LeverageEngine {
 public:
  virtual ~LeverageEngine() = default;

  /// Scores `rows` (ascending). InvalidArgument for a tau outside (0, 1] and for a kernel that is not finite or leaves
  /// nothing to score; ResourceExhausted if the engine does not fit into the memory of the request.
  virtual absl::StatusOr<ClassScores> Score(std::span<const RowIndex> rows, const ClassRequest& request) = 0;

  /// The same features with more rows after the existing ones; they must outlive the engine.
  virtual void MoveTo(const kernel::Features& grown) = 0;

  /// The landmarks in use, ascending: what an engine of the next process should begin with. Empty if there are none.
  virtual std::span<const RowIndex> landmarks() const { return {}; }
};

class WarmStart;

/// What an engine is made of. The features and the stream must outlive it.
struct EngineParts {
  kernel::KernelFunction kernel;
  const kernel::Features& features;
  const BlockStream& stream = BlocksInTurns();
  /// The subspace of the last round, for engines that start from one; an engine that replaces another takes it over.
  /// Null: the engine has its own.
  std::shared_ptr<WarmStart> last_subspace = nullptr;
};

/// The engine of that name from the registry; InvalidArgument that lists the existing names if there is none.
absl::StatusOr<std::unique_ptr<LeverageEngine>> MakeLeverageEngine(const std::string& name, const EngineParts& parts);

// The leverage engines by name. A new engine is one file that implements LeverageEngine and one line in
// engine_choice.cc.

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

// The choice of the engine of a class, by its size, the available memory and an estimate of the time.
//
// Exact engines are preferred while they are affordable: with the kernel matrix in memory (krylov, which switches to
// dense if necessary), then with the matrix recomputed (tiled), then landmarks. Pure functions, thread-safe.

struct ClassSize {
  std::size_t rows = 0;          ///< m
  std::size_t dims = 0;          ///< d, or the non-zeros of a row if features are sparse
  std::size_t memory_bytes = 0;  ///< that this class may use; 0: no limit
  std::size_t threads = 1;       ///< that this class has for itself
  bool may_refine = true;        ///< landmark scores, if that is affordable
};

struct EngineChoice {
  std::string engine;  ///< a name from the registry, never "auto"
  KernelForm form = KernelForm::kMatrix;
  std::string reason;           ///< why, for the report; empty if the user named the engine
  std::size_t landmarks = 0;    ///< landmark: n_s
  bool refine = false;          ///< landmark: by a product with the whole kernel, which is affordable
  std::size_t basis_bytes = 0;  ///< tiled: what its vectors may take
  double seconds = 0;           ///< estimate for a class that is scored from scratch, on an idle machine
};

/// The size of a class with `rows` rows, for a request.
ClassSize SizeOfClass(const kernel::Features& features, std::size_t rows, const ClassRequest& request);

/// `asked` is a name from the registry; "auto" is decided here. ResourceExhausted if the requested engine does not fit
/// into memory.
absl::StatusOr<EngineChoice> ChooseEngine(const std::string& asked, const ClassSize& size);

}  // namespace fulcrum::leverage
