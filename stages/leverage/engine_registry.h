// The leverage engines by name. A new engine is one file and one line in engine_registry.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/linalg/symmetric_operator.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

struct Engine {
  std::string name;
  std::string summary;  ///< one line for help texts
  std::function<absl::StatusOr<linalg::TopEigen>(const linalg::SymmetricOperator&, const linalg::TopEigenRequest&)>
      solve;
};

const std::vector<Engine>& Engines();
/// Whether an engine wants the kernel matrix in memory, or is content with its products.
bool HoldsKernelMatrix(std::string_view engine);
/// The engine of that name, or an error that lists the names there are.
absl::StatusOr<const Engine*> FindEngine(std::string_view name);

}  // namespace fulcrum::leverage
