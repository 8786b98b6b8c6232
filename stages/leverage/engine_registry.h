// The leverage engines by name. A new engine is one file that implements LeverageEngine and one line in
// engine_registry.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/kernel/features.h"
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
