#include <algorithm>
#include <cassert>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/blas_library.h"

namespace fulcrum::linalg {
namespace {

void SolveForRows(CBLAS_TRANSPOSE transpose, ConstMatrixView lower, MutableMatrixView rows) {
  if (rows.empty()) return;
  assert(lower.rows() == lower.cols() && rows.cols() == lower.rows());
  cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, transpose, CblasNonUnit, static_cast<int>(rows.rows()),
              static_cast<int>(rows.cols()), 1.0, lower.data(), static_cast<int>(lower.stride()), rows.data(),
              static_cast<int>(rows.stride()));
}

struct Factorisation {
  Matrix<double> matrix;
  int failure = 0;

  // LAPACK's upper triangle by columns is our lower triangle by rows, so nothing is transposed.
  void Run() {
    failure = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', static_cast<int>(matrix.rows()), matrix.data(),
                             static_cast<int>(matrix.stride()));
  }
};

}  // namespace

absl::StatusOr<Matrix<double>> FactorCholesky(Matrix<double> matrix) {
  assert(matrix.rows() == matrix.cols());
  if (matrix.empty()) return matrix;
  const std::size_t size = matrix.rows();
  Factorisation done = RunAbandonably(size, Factorisation{.matrix = std::move(matrix)});
  if (done.failure != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a matrix of %d rows is not positive definite (Cholesky stopped at row %d): its kernel is not one, or its "
        "values are not finite",
        size, done.failure));
  }
  return std::move(done.matrix);
}

// A row x becomes L^-1 x when the matrix of rows is multiplied by L^-T from the right.
void SolveLowerForRows(ConstMatrixView lower, MutableMatrixView rows) {
  SolveForRows(CblasTrans, lower, rows);
}

void SolveLowerTransposedForRows(ConstMatrixView lower, MutableMatrixView rows) {
  SolveForRows(CblasNoTrans, lower, rows);
}

namespace {

constexpr int kWidestPanel = 32;
constexpr int kNarrowestPanel = 1;
// A panel reads half of what is left of the matrix once per column. With this many elements it takes less than a
// second.
constexpr double kElementsPerPanel = 1.2e9;
// The last rows are not worth panels.
constexpr int kUnblockedRows = 64;
constexpr std::size_t kMostVectorsPerTask = 64;
// A task reads all reflectors once a vector; so many elements take less than half a second.
constexpr double kElementsPerTask = 2e9;

int PanelWidth(int rows_left) {
  const double width = kElementsPerPanel / (static_cast<double>(rows_left) * rows_left);
  return std::clamp(static_cast<int>(std::min<double>(width, kWidestPanel)), kNarrowestPanel, kWidestPanel);
}

std::size_t VectorsPerTask(std::size_t size) {
  const double fitting = kElementsPerTask / (static_cast<double>(size) * static_cast<double>(size));
  return std::clamp<std::size_t>(static_cast<std::size_t>(fitting), 1, kMostVectorsPerTask);
}

/// The panels of a reduction in progress, on LAPACK's lower triangle.
class Reduction {
 public:
  explicit Reduction(Tridiagonal& result)
      : result_(result),
        size_(static_cast<int>(result.reflectors.rows())),
        stride_(static_cast<int>(result.reflectors.stride())),
        updates_(static_cast<std::size_t>(size_) * kWidestPanel) {}

  absl::Status Run() {
    int done = 0;
    while (size_ - done > kUnblockedRows) {
      ThrowIfStopRequested();
      const int width = PanelWidth(size_ - done);
      ReducePanel(done, width);
      done += width;
    }
    const auto at = static_cast<std::size_t>(done);
    return CheckLapack("dsytrd", result_.reflectors.rows(),
                       LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'L', size_ - done, Element(done, done), stride_,
                                      &result_.diagonal[at], &result_.off_diagonal[at], &result_.scales[at]));
  }

 private:
  // LAPACK's columns are our rows.
  double* Element(int row, int column) { return result_.reflectors.row(static_cast<std::size_t>(column)).data() + row; }

  void ReducePanel(int first, int width) {
    const int rows = size_ - first;
    const auto at = static_cast<std::size_t>(first);
    dlatrd_("L", &rows, &width, Element(first, first), &stride_, &result_.off_diagonal[at], &result_.scales[at],
            updates_.data(), &size_);
    const int next = first + width;
    cblas_dsyr2k(CblasColMajor, CblasLower, CblasNoTrans, rows - width, width, -1.0, Element(next, first), stride_,
                 updates_.data() + width, size_, 1.0, Element(next, next), stride_);
    for (int column = first; column < next; ++column) {
      *Element(column + 1, column) = result_.off_diagonal[static_cast<std::size_t>(column)];
      result_.diagonal[static_cast<std::size_t>(column)] = *Element(column, column);
    }
  }

  Tridiagonal& result_;
  const int size_;
  const int stride_;
  std::vector<double> updates_;  // W of dlatrd: what the rest of the matrix is to be changed by
};

}  // namespace

void ReleaseThreadBuffers() {
#if FULCRUM_BLAS_MKL
  mkl_thread_free_buffers();
#endif
}

absl::Status CheckLapack(const char* routine, std::size_t rows, int failure) {
  if (failure == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrFormat("the dense eigensolver (%s) did not finish on a matrix of %d rows: code %d. The matrix may hold "
                      "values that are not finite.",
                      routine, rows, failure));
}

absl::StatusOr<Tridiagonal> ReduceToTridiagonal(Matrix<double> matrix) {
  const std::size_t size = matrix.rows();
  Tridiagonal result{std::move(matrix), std::vector<double>(size), std::vector<double>(size),
                     std::vector<double>(size)};
  FULCRUM_RETURN_IF_ERROR(Reduction(result).Run());
  return result;
}

absl::Status ApplyReflectors(const Tridiagonal& tridiagonal, MutableMatrixView vectors) {
  const auto size = static_cast<int>(tridiagonal.diagonal.size());
  std::mutex mutex;
  absl::Status status;
  ParallelForBlocks(vectors.rows(), VectorsPerTask(vectors.cols()), [&](std::size_t first, std::size_t count) {
    const MutableMatrixView block = vectors.Rows(first, count);
    const int failure = LAPACKE_dormtr(LAPACK_COL_MAJOR, 'L', 'L', 'N', size, static_cast<int>(count),
                                       tridiagonal.reflectors.data(), static_cast<int>(tridiagonal.reflectors.stride()),
                                       tridiagonal.scales.data(), block.data(), static_cast<int>(block.stride()));
    const std::scoped_lock lock(mutex);
    status.Update(CheckLapack("dormtr", vectors.cols(), failure));
  });
  return status;
}

}  // namespace fulcrum::linalg
