// The choice of the engine of a class, by its size, the available memory and an estimate of the time.
//
// Exact engines are preferred while they are affordable: with the kernel matrix in memory (krylov, which switches to
// dense if necessary), then with the matrix recomputed (tiled), then landmarks. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "stages/kernel/features.h"
#include "stages/leverage/engine_registry.h"
#include "stages/leverage/leverage_engine.h"

namespace fulcrum::leverage {

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
