// The Gaussian process given the labeled examples, used by QUIRE's closed form and by the doubts of hybrid.
//   variance(x) = k(x,x) - k_l' (K_ll + noise I)^-1 k_l        mean(x) = k_l' (K_ll + noise I)^-1 y_l
// Costs O(n l) kernel values and O(n l^2) operations, in blocks of candidates under oneTBB; the result does not depend
// on the number of threads. Not thread-safe for writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::select {

struct PosteriorRequest {
  const kernel::Features* features = nullptr;
  kernel::KernelFunction kernel;
  std::span<const RowIndex> labeled;
  std::span<const RowIndex> candidates;
  double noise = 1;              ///< lambda or mu; > 0
  ConstMatrixView targets = {};  ///< one row of y_l per requested mean; may be empty
  std::size_t updates = 0;       ///< number of later calls of Label; if not 0, n (l + updates) numbers are kept
};

class Posterior {
 public:
  /// Returns an error if the kernel is not positive semi-definite. Keeps a pointer to the features, and the span of
  /// candidates.
  static absl::StatusOr<Posterior> Compute(const PosteriorRequest& request);

  /// The same labeled examples and targets for other candidates; reuses the factorisation.
  Posterior Over(std::span<const RowIndex> candidates, std::size_t updates) const;

  /// By candidate, without the noise.
  std::span<const double> variances() const { return variances_; }
  /// By candidate, with one column per row of targets.
  ConstMatrixView means() const { return means_.view(); }

  /// Updates the variances by rank one as if this candidate were labeled. The means do not change.
  void Label(std::size_t candidate);

  const PosteriorRequest& request() const { return request_; }
  /// out(i, j) = k(x,z) - k_l(x)' (K_ll + noise I)^-1 k_l(z) of candidates x = a[i] and z = b[j]. Requires that updates
  /// were requested. Single-threaded; callers tile.
  void Covariances(std::span<const std::size_t> a, std::span<const std::size_t> b, MutableMatrixView out) const;
  /// The last Label subtracted f(x) f(z) from cov(x, z); this is f.
  double LastFactor(std::size_t candidate) const { return factors_(candidate, factor_count_ - 1); }

 private:
  /// Depends only on the labeled examples.
  struct Given {
    RowList labeled;
    Matrix<double> lower;           // L L' = K_ll + noise I
    Matrix<double> solved_targets;  // L^-1 y_l, one row per target
  };

  Posterior(const PosteriorRequest& request, std::shared_ptr<const Given> given);
  /// Pool rows and factors of some candidates, contiguous in memory.
  struct FactorsOfSome {
    RowList rows;
    Matrix<double> factors;
  };
  FactorsOfSome Gather(std::span<const std::size_t> candidates) const;
  void ComputeBlock(std::size_t first, std::size_t count);

  PosteriorRequest request_;
  std::shared_ptr<const Given> given_;
  std::vector<double> variances_;
  Matrix<double> means_;
  Matrix<double> factors_;  // one row per candidate: L^-1 k_l, then one entry per update; empty without updates
  std::size_t factor_count_ = 0;
};

// How much of the doubt about the pool the answer to one more query would remove.
//   reduction(x) = sum_r doubt(r) cov(x, r)^2 / (var(x) + noise)
//   doubt(r)     = P(the wrong sign) = erfc(margin(r) / sqrt(2 (var(r) + noise)))
// cov and var are those of the posterior, margin is half the distance between its two largest class means, and r runs
// over a sample of the candidates. cov(x, r)^2 / (var(x) + noise) is the reduction of the variance of r by an answer
// for x, so with doubt 1 everywhere this is the criterion of transductive experimental design: representative examples
// first. As doubts decrease in regions of one class, queries move to the boundary between the classes.
//
// Keeps a reference to the posterior. Follow is not thread-safe; Scores uses the threads of the caller's arena and its
// result does not depend on their number.

class DoubtReduction {
 public:
  /// Candidates and references are positions among the candidates of `posterior`, for which updates and one mean per
  /// class were requested.
  DoubtReduction(const Posterior& posterior, std::vector<std::size_t> candidates, std::vector<std::size_t> references);

  /// Returns reduction(x), in the order of the candidates.
  std::vector<double> Scores() const;

  /// Applies the change of the last posterior.Label.
  void Follow();

 private:
  const Posterior& posterior_;
  std::vector<std::size_t> candidates_;
  std::vector<std::size_t> references_;
  Matrix<double> covariances_;  // candidates x references
};

/// Returns half the distance between the two largest means of a candidate; with two classes, the absolute value of
/// either.
double MarginOf(const Posterior& posterior, std::size_t candidate);

// Samples from a version space: the vectors u in the unit ball with c_i . u >= 0 for every constraint c_i, which is a
// labeled example times its sign.
//
// Hit and run along the coordinate axes: from a point inside, move to a uniformly random point of the chord along a
// random axis. A move along an axis costs O(constraints), along a random direction O(constraints * dimensions), so a
// sample can use many more moves. Thread-safe; the same seed gives the same samples.

struct VersionSpaceSample {
  Matrix<double> vectors;  ///< one per row
  std::size_t dropped_count =
      0;  ///< constraints treated as label noise, because no vector was found that satisfies all
};

/// `constraints` has one row per constraint; its columns are the dimensions.
VersionSpaceSample SampleVersionSpace(ConstMatrixView constraints, std::size_t count, std::uint64_t seed);

// An orthonormal basis of the space spanned by some rows of a pool, computed from inner products only, so that it works
// for sparse and dense features: with anchors a_1..a_r and L L' their Gram matrix, the coordinates of x are L^-1
// (a_1.x, ..., a_r.x). Immutable and thread-safe after construction; keeps a reference to the features.

class SpanBasis {
 public:
  /// Processes `rows` in order and keeps those that add a direction.
  SpanBasis(const kernel::Features& features, std::span<const RowIndex> rows);

  /// The rows that were kept; their number is the dimension of the space.
  std::span<const RowIndex> anchors() const { return anchors_; }
  /// Returns the coordinates of the projection of each row on the space.
  Matrix<double> Coordinates(std::span<const RowIndex> rows) const;
  /// Converts vectors in these coordinates, one per row, to weights of the anchors, in place.
  void ToAnchorWeights(MutableMatrixView vectors) const;

 private:
  const kernel::Features& features_;
  RowList anchors_;
  Matrix<double> lower_;  // its leading block is L
};

// Batches that distinguish hypotheses: the objective of near-optimal batch mode active learning (Chen and Krause 2013,
// generalized binary search). With equally likely hypotheses and labels that differ from the prediction of a hypothesis
// with probability `noise` (equally likely for all other classes), the expected mass left after observing the labels of
// a batch is
//   sum over label patterns y of p(y)^2,   p(y) = mean over h of prod_j P(y_j | h).
// Expanding the square over pairs of hypotheses turns the sum over all C^b patterns into a product over the batch:
//   mean over (h, h') of prod_j (a if h and h' agree on x_j, else d),
//   a = (1-noise)^2 + noise^2/(C-1),   d = 2 (1-noise) noise/(C-1) + (C-2) (noise/(C-1))^2.
// The product of a pair can only decrease, by less as the batch grows, so the reduction is submodular and greedy is
// lazy.
// Functions are thread-safe.

/// The class predicted for each example (row) by each hypothesis (column).
using PredictionTable = MatrixView<const std::uint16_t>;

struct LabelModel {
  std::size_t class_count = 2;
  double noise = 0.02;
};

/// Returns the expected mass left by the labels of all examples of the table.
double ExpectedRemainingMass(PredictionTable predictions, const LabelModel& model);

struct MassReduction {
  std::size_t example = 0;  ///< row of the table
  double reduction = 0;     ///< of the expected remaining mass
};

/// Selects, `batch` times, the example that leaves the smallest expected mass. Ties go to the smaller rows[i].
std::vector<MassReduction> ReduceMassGreedily(PredictionTable predictions, std::span<const RowIndex> rows,
                                              const LabelModel& model, std::size_t batch);

// The state of transductive experimental design: a kernel matrix K deflated by the examples taken so far,
//   K' = K - K(:,i) K(i,:) / (K(i,i) + mu) for one after the other = K - V V',
// known by its column norms, its diagonal and V alone, never formed. The order of deflation does not matter.
// Not thread-safe; the pool's kernel must outlive it.

// The kernel matrix of a whole pool, visited tile by tile: kept in memory for small pools, recomputed in each pass for
// large ones, so that memory stays bounded. Immutable and thread-safe after construction.

class PoolKernel {
 public:
  /// Up to this many rows the matrix (512 MB then) is kept.
  static constexpr std::size_t kRowsInMemory = 8000;

  /// Keeps a reference to `features`. `rows_in_memory` is there for tests.
  PoolKernel(const kernel::KernelFunction& kernel, const kernel::Features& features,
             std::size_t rows_in_memory = kRowsInMemory);

  std::size_t size() const { return all_rows_.size(); }
  /// K(x, x) of every row.
  std::vector<double> Diagonal() const;
  /// out(i, j) = K(x_i, x_{rows[j]}).
  void Columns(std::span<const RowIndex> rows, MutableMatrixView out) const;

  using TileVisitor = absl::FunctionRef<void(std::size_t first_row, std::size_t first_col, ConstMatrixView tile)>;
  /// Shows every tile once: rows of tiles in parallel, the tiles of one row of tiles in order on one thread.
  void VisitTiles(TileVisitor visitor) const;
  /// y = K x.
  void Multiply(std::span<const double> x, std::span<double> y) const;

 private:
  kernel::KernelFunction kernel_;
  const kernel::Features& features_;
  RowList all_rows_;
  Matrix<double> matrix_;                             // empty for a large pool
  std::optional<kernel::KernelTiles<double>> tiles_;  // of a large pool
};

class ExperimentalDesign {
 public:
  /// Deflated by `taken` already. One pass over the pool's kernel. `further` is how often Take will be called.
  static absl::StatusOr<ExperimentalDesign> Start(const PoolKernel& kernel, double mu, std::span<const RowIndex> taken,
                                                  std::size_t further);

  /// |K'(:,i)|^2 / (K'(i,i) + mu): how much example i would explain of the whole pool.
  double Score(RowIndex row) const { return column_norms_[row] / (diagonal_[row] + mu_); }

  /// Deflates by this example. One pass over the pool's kernel.
  void Take(RowIndex row);

 private:
  ExperimentalDesign(const PoolKernel& kernel, double mu, std::size_t capacity);
  absl::Status Deflate(std::span<const RowIndex> taken);
  void ComputeColumnNorms();
  ConstMatrixView vectors() const { return vectors_.view().Cols(0, taken_); }

  const PoolKernel* kernel_;
  double mu_;
  std::vector<double> column_norms_;  // |K'(:,i)|^2
  std::vector<double> diagonal_;      // K'(i,i)
  Matrix<double> vectors_;            // V, one column per example taken
  std::size_t taken_ = 0;
};

}  // namespace fulcrum::select
