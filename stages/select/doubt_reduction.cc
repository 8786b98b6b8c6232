#include "stages/select/doubt_reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kCandidatesPerBlock = 256;

double DoubtOf(const Posterior& posterior, std::size_t candidate) {
  // Rounding may carry the variance of a copy of a labeled example below zero.
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
