// Arrays of another owner, such as numpy's, as the examples of a round.
//
// Views do not own memory: the arrays must outlive everything that is made from them. Thread-safe for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>

#include "absl/status/status.h"
#include "stages/core/matrix.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"

namespace fulcrum::python {

/// A sparse matrix by rows, as scipy.sparse.csr_matrix has it; columns ascend within a row.
struct CsrView {
  std::size_t cols = 0;
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> columns;
  std::span<const double> values;
};

/// Examples, one per row.
using Examples = std::variant<MatrixView<const double>, MatrixView<const float>, CsrView>;

std::size_t RowsOf(const Examples& examples);
std::size_t ColsOf(const Examples& examples);

/// InvalidArgument that names the first row with a value that is not a finite number, or whose columns do not ascend or
/// are outside of the matrix.
absl::Status CheckValues(const Examples& examples);

/// A copy of some consecutive rows in double precision, dense or sparse as the examples are.
ingest::PoolFeatures CopyOf(const Examples& examples, std::size_t first, std::size_t count);

/// Features that read the examples where they are. Null for single precision, which has to be copied.
std::unique_ptr<kernel::Features> FeaturesInPlace(const Examples& examples);

}  // namespace fulcrum::python
