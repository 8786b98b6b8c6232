#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::linalg {
namespace {

// Solving the projection costs as much as several products, so a cold start waits until the basis has grown by this.
constexpr double kGrowthBetweenChecks = 1.12;

// A warm start always needs another block before its answer is worth checking; it follows from the products alone.
constexpr std::size_t kBlocksAfterWarmStart = 1;

// Relative: an invariant subspace with at least this share of the trace leaves out only rounding errors.
constexpr double kWholeTrace = 1 - 1e-12;

/// One run of the solver: a basis, a request, and the checks between expansions.
class KrylovRun {
 public:
  KrylovRun(const SymmetricOperator& matrix, const TopEigenRequest& request, const KrylovOptions& options)
      : matrix_(matrix),
        request_(request),
        options_(options),
        basis_(matrix, options.largest_basis),
        random_(request.seed) {}

  absl::StatusOr<TopEigen> Solve();

 private:
  void Start();
  /// Grows the basis by the products of its last block; sets captured_ if there is nothing left to grow by.
  void ExpandByKrylov();
  std::size_t ExpandByRandom();
  /// Size of the basis at which to check for convergence again.
  std::size_t NextCheck(bool first, std::size_t added) const;
  bool DenseIsCheaper(const RitzVerdict& verdict) const;
  /// How many more vectors the options allow.
  std::size_t Room() const;
  absl::Status Restart(const RitzPairs& pairs, const RitzVerdict& verdict);
  absl::StatusOr<TopEigen> HandOver(const std::string& why) const;
  TopEigen Answer(const RitzPairs& pairs, const RitzVerdict& verdict) const;
  bool warm() const { return !request_.start.empty(); }
  bool complete() const { return basis_.size() == matrix_.size(); }

  const SymmetricOperator& matrix_;
  const TopEigenRequest& request_;
  const KrylovOptions& options_;
  KrylovBasis basis_;
  Random random_;
  std::size_t restarts_ = 0;
  bool captured_ = false;  // the basis is invariant and holds the whole trace
};

/// A block of the first vectors of `vectors`, at most `count`.
Matrix<double> FirstVectors(ConstMatrixView vectors, std::size_t count) {
  return Matrix<double>::CopyOf(vectors.Rows(0, std::min(vectors.rows(), count)));
}

void KrylovRun::Start() {
  if (!warm()) {
    ExpandByRandom();
    return;
  }
  // Leading vectors come first, so a start is cut at its end to leave as much room as it takes.
  const std::size_t most = options_.largest_basis > 0 ? options_.largest_basis / 2 : request_.start.rows();
  const std::size_t count = std::min(request_.start.rows(), most);
  if (request_.start_multiplied.empty()) {
    Matrix<double> start = FirstVectors(request_.start, count);
    basis_.Expand(start.view());
    return;
  }
  basis_.Begin(request_.start.Rows(0, count), request_.start_multiplied.Rows(0, count));
}

std::size_t KrylovRun::ExpandByRandom() {
  Matrix<double> block(std::min(options_.block_width, matrix_.size()), matrix_.size());
  for (std::size_t i = 0; i < block.rows(); ++i) {
    for (double& value : block.row(i)) value = random_.Normal();
  }
  return basis_.Expand(block.view());
}

void KrylovRun::ExpandByKrylov() {
  // The block of a warm start is the whole start, which may be more than there is room for.
  Matrix<double> block = FirstVectors(basis_.LastProducts(), Room());
  if (!block.empty() && basis_.ExpandByProducts(block.view()) > 0) return;
  captured_ = basis_.CapturedTrace() >= kWholeTrace * matrix_.Trace();
  // An invariant subspace that is not enough yet: the rest of the spectrum needs a direction outside it.
  if (!captured_) ExpandByRandom();
}

std::size_t KrylovRun::NextCheck(bool first, std::size_t added) const {
  if (!warm()) return static_cast<std::size_t>(kGrowthBetweenChecks * static_cast<double>(basis_.size()));
  return basis_.size() + (first ? kBlocksAfterWarmStart * added : 0);
}

bool KrylovRun::DenseIsCheaper(const RitzVerdict& verdict) const {
  if (matrix_.Dense().empty()) return false;
  const double largest_basis = options_.largest_basis_share * static_cast<double>(matrix_.size());
  // Empirically the final basis has at least one and a half times the rank.
  return static_cast<double>(std::max(basis_.size(), verdict.rank_lower_bound * 3 / 2)) > largest_basis;
}

std::size_t KrylovRun::Room() const {
  if (options_.largest_basis == 0) return std::numeric_limits<std::size_t>::max();
  return options_.largest_basis - std::min(options_.largest_basis, basis_.size());
}

absl::Status KrylovRun::Restart(const RitzPairs& pairs, const RitzVerdict& verdict) {
  const std::size_t needed = verdict.rank + 2 * options_.block_width;
  const std::size_t kept = std::min(std::max(needed, options_.largest_basis / 2), basis_.size());
  if (!verdict.rank_found || needed + options_.block_width > options_.largest_basis) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "tau = %g needs a rank of %d or more of m = %d, and the memory is for %d vectors of that length; allow more "
        "memory, lower tau, or use the landmark engine",
        request_.tau, std::max(verdict.rank, verdict.rank_lower_bound), matrix_.size(), options_.largest_basis));
  }
  // The last products continue all Ritz vectors at once, unless they are more than there is room for: the residuals of
  // the pairs that are not settled continue these.
  const std::size_t room = options_.largest_basis - kept;
  const bool by_products = !basis_.LastProducts().empty() && basis_.LastProducts().rows() <= room;
  Matrix<double> next = FirstVectors(by_products ? basis_.LastProducts() : verdict.directions.view(), room);
  if (basis_.Restart(pairs, kept, next.view()) == 0) ExpandByRandom();
  ++restarts_;
  return absl::OkStatus();
}

absl::StatusOr<TopEigen> KrylovRun::HandOver(const std::string& why) const {
  FULCRUM_ASSIGN_OR_RETURN(TopEigen top, SolveTopEigenPartial(matrix_.Dense(), request_));
  top.products = basis_.products();
  top.reason = "krylov handed over to dense: " + why;
  return top;
}

TopEigen KrylovRun::Answer(const RitzPairs& pairs, const RitzVerdict& verdict) const {
  TopEigen top;
  top.engine = options_.name;
  top.rank = verdict.rank;
  top.values.assign(pairs.values.begin(), pairs.values.begin() + static_cast<std::ptrdiff_t>(top.rank));
  // The vectors beyond k cost little to carry and let the next start separate the cut at once.
  const std::size_t kept = std::min(pairs.values.size(), options_.kept_per_rank * top.rank + options_.block_width);
  const std::size_t known = std::min(kept, verdict.vectors.rows());
  top.vectors = Matrix<double>(kept, matrix_.size());
  top.multiplied = Matrix<double>(kept, matrix_.size());
  CopyMatrix<double>(verdict.vectors.view().Rows(0, known), top.vectors.view().Rows(0, known));
  CopyMatrix<double>(verdict.multiplied.view().Rows(0, known), top.multiplied.view().Rows(0, known));
  basis_.WriteRitzVectors(pairs, known, top.vectors.view().Rows(known, kept - known));
  basis_.WriteRitzVectorsMultiplied(pairs, known, top.multiplied.view().Rows(known, kept - known));
  double sum = 0;
  for (double value : top.values) sum += value;
  top.trace_share = sum / matrix_.Trace();
  top.residual = pairs.values[0] > 0 ? verdict.largest_residual / pairs.values[0] : 0;
  top.products = basis_.products();
  top.degenerate_cut = verdict.degenerate_cut;
  top.reason = absl::StrFormat("%s start, %d products, basis of %d for m = %d", warm() ? "warm" : "cold", top.products,
                               basis_.size(), matrix_.size());
  if (restarts_ > 0)
    absl::StrAppendFormat(&top.reason, ", restarted %d times to stay within the memory limit", restarts_);
  return top;
}

absl::StatusOr<TopEigen> KrylovRun::Solve() {
  if (!matrix_.Dense().empty() && matrix_.size() < 6 * options_.block_width) {
    return HandOver(absl::StrFormat("m = %d is small", matrix_.size()));
  }
  if (!matrix_.Dense().empty() && request_.dense_at_once) {
    return HandOver(absl::StrFormat("it had to for nearly the same rows before, m = %d", matrix_.size()));
  }
  Start();
  std::size_t next_check = warm() ? 0 : 4 * options_.block_width;
  while (true) {
    ThrowIfStopRequested();
    if (basis_.size() < next_check && !complete() && !captured_ && Room() >= options_.block_width) {
      ExpandByKrylov();
      continue;
    }
    FULCRUM_ASSIGN_OR_RETURN(RitzPairs pairs, basis_.SolveProjection());
    RitzVerdict verdict = JudgeRitzPairs(basis_, pairs, request_, matrix_.Trace());
    if (verdict.converged || complete() || (captured_ && verdict.rank_found)) return Answer(pairs, verdict);
    if (DenseIsCheaper(verdict)) {
      return HandOver(absl::StrFormat("tau = %g needs a rank of at least %d of m = %d", request_.tau,
                                      std::max(verdict.rank_lower_bound, verdict.rank), matrix_.size()));
    }
    captured_ = false;
    if (Room() < options_.block_width) {
      FULCRUM_RETURN_IF_ERROR(Restart(pairs, verdict));
      next_check = NextCheck(/*first=*/false, 0);
      continue;
    }
    std::size_t added = 0;
    if (warm() && !verdict.directions.empty()) {
      const std::size_t fitting = std::min(verdict.directions.rows(), Room());
      added = basis_.ExpandByProducts(verdict.directions.view().Rows(0, fitting));
    }
    if (added == 0) ExpandByKrylov();
    next_check = NextCheck(/*first=*/next_check == 0, added);
  }
}

}  // namespace

absl::StatusOr<TopEigen> SolveTopEigenKrylov(const SymmetricOperator& matrix, const TopEigenRequest& request,
                                             const KrylovOptions& options) {
  if (matrix.size() == 0) return absl::InvalidArgumentError("a kernel matrix of no rows has no eigenvalues");
  absl::StatusOr<TopEigen> top = KrylovRun(matrix, request, options).Solve();
  if (request.start.empty() || top.ok() || !absl::IsResourceExhausted(top.status())) return top;
  TopEigenRequest cold = request;
  cold.start = cold.start_multiplied = {};
  return KrylovRun(matrix, cold, options).Solve();
}

}  // namespace fulcrum::linalg
