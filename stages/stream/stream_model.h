// What a stream of rows is compared with: the classifier of the moment and the rows it was trained in, reduced to
// landmarks, so that a new row costs O(landmarks x (features + rank)) whatever the size of the pool.
//
// With S the landmarks, K_SS + ridge = L L' and k(x) the kernel of a row with the landmarks, L^-1 k(x) are its
// coordinates in the landmarks' span. W are the directions in which the reference rows, a sample of the pool, extend
// furthest (the top eigenvectors of their second moments, theta), and
//
//   z(x) = W' L^-1 k(x)           the coordinates of a row; z(x)'z(y) approximates K(x, y)
//   novelty(x)                    1 - |z(x)|^2 / K(x, x), the part of a row outside of the span, beyond what reference
//                                 rows have on average: 0 for those, 1 for a row that is like no landmark
//   uncertainty(x)                1 - |2 p - 1|, p the probability of the predicted class against its nearest rival
//
// The kernel is the classifier's. Landmarks are support vectors, up to half of them, and a sample of the other rows. A
// classifier with more support vectors is replaced by the combination of landmarks that is closest to it on the
// reference rows. If there is no classifier yet, every row is uncertain.
//
// A row is computed by itself, in a fixed order of operations: its values do not depend on the rows that arrive with
// it. Immutable and thread-safe after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::stream {

struct StreamModelOptions {
  std::size_t landmarks = 256;
  std::size_t rank = 64;         ///< coordinates of a row, at most
  std::size_t reference = 2048;  ///< rows of the pool that a stream is compared with, at most
  std::uint64_t seed = 1;
};

/// The rows that a stream is compared with.
struct StreamPool {
  const kernel::Features& features;
  std::span<const ClassIndex> labels;              ///< by row; kUnlabeled if there is none
  const classify::SvmModel* classifier = nullptr;  ///< trained on `features`; null: none yet
  kernel::KernelFunction kernel = {};              ///< if there is no classifier
  std::span<const RowIndex> rows = {};             ///< that are known so far, ascending; empty: all
};

/// What the model says of a row.
struct RowView {
  std::vector<double> coordinates;  ///< z(x)
  double diagonal = 0;              ///< K(x, x)
  double novelty = 0;
  double uncertainty = 0;
  std::vector<double> kernel;  ///< k(x)
  std::vector<double> decisions;
  std::vector<std::uint32_t> votes;
};

class StreamModel {
 public:
  /// FailedPrecondition if the pool has fewer than two rows; InvalidArgument if its kernel is not finite.
  static absl::StatusOr<std::shared_ptr<const StreamModel>> Make(const StreamPool& pool,
                                                                 const StreamModelOptions& options);

  /// All of it as bytes, little-endian; Parse makes the same model of them. DataLoss if they are damaged,
  /// InvalidArgument if they are of another version.
  std::string Serialize() const;
  static absl::StatusOr<std::shared_ptr<const StreamModel>> Parse(std::string_view bytes);

  std::size_t dims() const { return landmarks_.rows(); }
  std::size_t landmarks() const { return norms_.size(); }
  std::size_t rank() const { return projection_.cols(); }

  /// Fills `view`, whose memory is used again from row to row. `row` has dims() finite numbers.
  void Look(std::span<const double> row, RowView& view) const;

  /// Second moments of the coordinates of the reference rows; the others, (i, j) with i != j, are zero.
  std::span<const double> moments() const { return moments_; }
  /// Coordinates of the reference rows, and of the rows that have labels.
  ConstMatrixView reference() const { return reference_.view(); }
  ConstMatrixView labeled() const { return labeled_.view(); }
  /// Root mean square error of the decision values on the reference rows, relative to their own.
  double decision_error() const { return decision_error_; }
  /// Differs between models that differ.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  StreamModel() = default;
  absl::Status ChooseCoordinates(Matrix<double> gram, Matrix<double> reference);
  absl::Status FitDecisions(const StreamPool& pool, std::span<const RowIndex> landmarks,
                            std::span<const RowIndex> fitted);
  double UncertaintyOf(RowView& view) const;
  Matrix<double> CoordinatesOf(ConstMatrixView kernel_rows) const;
  void SetFingerprint();

  kernel::KernelFunction kernel_;
  Matrix<double> landmarks_;  // features x landmarks: the inner loops run over landmarks
  std::vector<double> norms_;
  Matrix<double> projection_;    // landmarks x rank
  Matrix<double> coefficients_;  // landmarks x pairs
  std::vector<classify::SvmPair> pairs_;
  std::size_t class_count_ = 0;
  std::vector<double> moments_;
  Matrix<double> reference_, labeled_;
  double usual_outside_ = 0;  // mean over the reference rows of 1 - |z|^2 / K
  double decision_error_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace fulcrum::stream
