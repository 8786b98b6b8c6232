// Which engine a class gets: from its size, the memory there is, and an estimate of the time.
//
// Exact engines are preferred while they are affordable: with the kernel matrix in memory (krylov, which hands over to
// dense by itself), then with the matrix recomputed (tiled), and landmarks beyond. Pure functions, thread-safe.
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
  std::size_t dims = 0;          ///< d, the non-zeros of a row where features are sparse
  std::size_t memory_bytes = 0;  ///< that this class may use; 0: no limit
  std::size_t threads = 1;       ///< that this class has for itself
  bool may_refine = true;        ///< what landmarks show, where that is affordable
};

struct EngineChoice {
  std::string engine;  ///< a name from the registry, never "auto"
  KernelForm form = KernelForm::kMatrix;
  std::string reason;           ///< why, for the report; empty where the user named the engine
  std::size_t landmarks = 0;    ///< landmark: n_s
  bool refine = false;          ///< landmark: by a product with the whole kernel, which is affordable
  std::size_t basis_bytes = 0;  ///< tiled: what its vectors may take
};

/// What a request says of a class of so many rows.
ClassSize SizeOfClass(const kernel::Features& features, std::size_t rows, const ClassRequest& request);

/// `asked` is a name from the registry; "auto" is decided here. ResourceExhausted where the engine that was asked for
/// does not fit into memory.
absl::StatusOr<EngineChoice> ChooseEngine(const std::string& asked, const ClassSize& size);

}  // namespace fulcrum::leverage
