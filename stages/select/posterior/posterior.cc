#include "stages/select/posterior/posterior.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kCandidatesPerBlock = 256;

absl::StatusOr<Matrix<double>> FactorLabeledKernel(const PosteriorRequest& request) {
  const std::size_t size = request.labeled.size();
  Matrix<double> kernel(size, size);
  kernel::ComputeKernelSymmetric(request.kernel, *request.features, request.labeled, kernel.view());
  for (std::size_t i = 0; i < size; ++i) kernel(i, i) += request.noise;
  return linalg::FactorCholesky(std::move(kernel));
}

}  // namespace

Posterior::Posterior(const PosteriorRequest& request, std::shared_ptr<const Given> given)
    : request_(request),
      given_(std::move(given)),
      variances_(request.candidates.size()),
      means_(Matrix<double>::Zero(request.candidates.size(), given_->solved_targets.rows())),
      factor_count_(given_->labeled.size()) {
  request_.labeled = given_->labeled;
  request_.targets = {};  // the caller may free them; their solution is kept
  if (request.updates > 0) factors_ = Matrix<double>(request.candidates.size(), factor_count_ + request.updates);
  ParallelForBlocks(request.candidates.size(), kCandidatesPerBlock,
                    [this](std::size_t first, std::size_t count) { ComputeBlock(first, count); });
}

absl::StatusOr<Posterior> Posterior::Compute(const PosteriorRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(Matrix<double> lower, FactorLabeledKernel(request));
  Matrix<double> solved_targets = Matrix<double>::CopyOf(request.targets);
  linalg::SolveLowerForRows(std::as_const(lower).view(), solved_targets.view());
  return Posterior(request, std::make_shared<Given>(Given{RowList(request.labeled.begin(), request.labeled.end()),
                                                          std::move(lower), std::move(solved_targets)}));
}

Posterior Posterior::Over(std::span<const RowIndex> candidates, std::size_t updates) const {
  PosteriorRequest request = request_;
  request.candidates = candidates;
  request.updates = updates;
  return Posterior(request, given_);
}

void Posterior::ComputeBlock(std::size_t first, std::size_t count) {
  const std::size_t labeled = request_.labeled.size();
  Matrix<double> own_buffer;
  if (factors_.empty()) own_buffer = Matrix<double>(count, labeled);
  const MutableMatrixView block =
      factors_.empty() ? own_buffer.view() : factors_.view().Block(first, 0, count, labeled);
  if (labeled > 0) {
    kernel::ComputeKernelBlock(request_.kernel, *request_.features, request_.candidates.subspan(first, count),
                               request_.labeled, block);
    linalg::SolveLowerForRows(given_->lower.view(), block);
  }
  if (!means_.empty() && labeled > 0) {
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, block, given_->solved_targets.view(), 0.0,
                 means_.view().Rows(first, count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double prior =
        kernel::KernelDiagonal(request_.kernel, request_.features->squared_norms()[request_.candidates[first + i]]);
    variances_[first + i] = prior - (labeled > 0 ? linalg::Dot(block.row(i), block.row(i)) : 0.0);
  }
}

void Posterior::Covariances(std::span<const std::size_t> a, std::span<const std::size_t> b,
                            MutableMatrixView out) const {
  assert(!factors_.empty());
  const FactorsOfSome own = Gather(a), other = Gather(b);
  kernel::ComputeKernelBlock(request_.kernel, *request_.features, own.rows, other.rows, out);
  if (factor_count_ == 0) return;
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, -1.0, own.factors.view(), other.factors.view(), 1.0,
               out);
}

Posterior::FactorsOfSome Posterior::Gather(std::span<const std::size_t> candidates) const {
  FactorsOfSome some{.rows = {}, .factors = Matrix<double>(candidates.size(), factor_count_)};
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    some.rows.push_back(request_.candidates[candidates[i]]);
    std::copy_n(factors_.row(candidates[i]).data(), factor_count_, some.factors.row(i).data());
  }
  return some;
}

void Posterior::Label(std::size_t candidate) {
  assert(factor_count_ < factors_.cols());
  const double scale = 1 / std::sqrt(variances_[candidate] + request_.noise);
  const std::vector<double> own(factors_.row(candidate).begin(), factors_.row(candidate).begin() + factor_count_);
  const RowIndex row = request_.candidates[candidate];
  ParallelForBlocks(variances_.size(), kCandidatesPerBlock, [&](std::size_t first, std::size_t count) {
    Matrix<double> column(count, 1);
    kernel::ComputeKernelBlock(request_.kernel, *request_.features, request_.candidates.subspan(first, count),
                               std::span(&row, 1), column.view());
    for (std::size_t i = 0; i < count; ++i) {
      const auto factors = factors_.row(first + i);
      const double covariance = column(i, 0) - linalg::Dot(factors.first(factor_count_), own);
      factors[factor_count_] = covariance * scale;
      variances_[first + i] -= factors[factor_count_] * factors[factor_count_];
    }
  });
  ++factor_count_;
}

namespace {

double DoubtOf(const Posterior& posterior, std::size_t candidate) {
  // Rounding may make the variance of a copy of a labeled example negative.
  const double variance = std::max(posterior.variances()[candidate], 0.0);
  return std::erfc(MarginOf(posterior, candidate) / std::sqrt(2 * (variance + posterior.request().noise)));
}

}  // namespace

double MarginOf(const Posterior& posterior, std::size_t candidate) {
  double largest = -std::numeric_limits<double>::infinity(), second = largest;
  for (const double mean : posterior.means().row(candidate)) {
    second = std::max(second, std::min(mean, largest));
    largest = std::max(largest, mean);
  }
  return (largest - second) / 2;
}

DoubtReduction::DoubtReduction(const Posterior& posterior, std::vector<std::size_t> candidates,
                               std::vector<std::size_t> references)
    : posterior_(posterior),
      candidates_(std::move(candidates)),
      references_(std::move(references)),
      covariances_(candidates_.size(), references_.size()) {
  ParallelForBlocks(candidates_.size(), kCandidatesPerBlock, [&](std::size_t first, std::size_t count) {
    posterior_.Covariances(std::span(candidates_).subspan(first, count), references_,
                           covariances_.view().Rows(first, count));
  });
}

std::vector<double> DoubtReduction::Scores() const {
  std::vector<double> doubts;
  doubts.reserve(references_.size());
  for (const std::size_t reference : references_) doubts.push_back(DoubtOf(posterior_, reference));
  const double noise = posterior_.request().noise;
  std::vector<double> scores(candidates_.size());
  ParallelForBlocks(candidates_.size(), kCandidatesPerBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      double sum = 0;
      const double* const row = covariances_.row(i).data();
      for (std::size_t r = 0; r < doubts.size(); ++r) sum += doubts[r] * row[r] * row[r];
      scores[i] = sum / (std::max(posterior_.variances()[candidates_[i]], 0.0) + noise);
    }
  });
  return scores;
}

void DoubtReduction::Follow() {
  std::vector<double> of_references;
  of_references.reserve(references_.size());
  for (const std::size_t reference : references_) of_references.push_back(posterior_.LastFactor(reference));
  ParallelForBlocks(candidates_.size(), kCandidatesPerBlock, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      linalg::Axpy(-posterior_.LastFactor(candidates_[i]), of_references, covariances_.row(i));
    }
  });
}

}  // namespace fulcrum::select
