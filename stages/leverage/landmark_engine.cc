#include "stages/leverage/landmark_engine.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "stages/core/matrix.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/float_columns.h"
#include "stages/leverage/landmark_change.h"
#include "stages/leverage/landmark_gram.h"
#include "stages/leverage/landmark_pass.h"
#include "stages/leverage/landmark_sample.h"
#include "stages/leverage/leverage_scores.h"

namespace fulcrum::leverage {
namespace {

constexpr std::size_t kFewestLandmarks = 2000;
constexpr std::size_t kMostLandmarks = 4000;
// Multiplications of the first pass, n_s^2 a row, that are worth spending on a class.
constexpr double kGramWork = 2e12;
// Rows whose residuals are computed, and rows of the comparison with exact scores.
constexpr std::size_t kResidualRows = 64;
constexpr std::size_t kComparedRows = 1000;
// Streams of the seed, so that landmarks and samples have nothing to do with each other.
constexpr std::uint64_t kLandmarkStream = 11, kResidualStream = 12, kComparedStream = 13;
// An update costs as much a row as the first sum; beyond this share of changes the sum is taken afresh.
constexpr double kLargestChangedShare = 0.4;
// Rounding errors of updates add up; so often they are done away with.
constexpr std::size_t kUpdatesBetweenSums = 32;
// Scores that have moved by no more than this share of their mean stay as they are.
constexpr double kNegligibleChange = 0.01;

std::string Describe(const LandmarkScores& scores, std::size_t landmarks) {
  std::string text =
      absl::StrFormat("%d landmarks capture %.3f of the trace, residual %.1e; %s %d of %d rows", landmarks,
                      scores.quality.captured_share, scores.quality.residual,
                      scores.warm ? "updated by" : "summed over", scores.rows_summed, scores.scores.size());
  if (scores.rows_scored < scores.scores.size()) {
    absl::StrAppendFormat(&text, "; scored %d, the others cannot have moved by more than %.1e", scores.rows_scored,
                          scores.largest_change);
  }
  if (scores.quality.sample > 0) {
    absl::StrAppendFormat(&text,
                          "; on a sample of %d rows the best twentieth collects %.3f of the exact one's leverage",
                          scores.quality.sample, scores.quality.collected_share);
  }
  return text;
}

/// The part of a class that is summed: every one of so many, by the number of a row alone, so that a row that stays in
/// its class stays in the sum. Numbers come in no order that features know of, once they are mixed.
RowList SummedPart(std::span<const RowIndex> rows, std::size_t most) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  std::uint64_t one_of = 1;
  while (rows.size() / one_of > most) one_of *= 2;
  RowList part;
  for (const RowIndex row : rows) {
    if ((row * kMix >> 40) % one_of == 0) part.push_back(row);
  }
  return part;
}

/// Both ascending.
RowList RowsOnlyIn(std::span<const RowIndex> rows, std::span<const RowIndex> others) {
  RowList only;
  std::set_difference(rows.begin(), rows.end(), others.begin(), others.end(), std::back_inserter(only));
  return only;
}

}  // namespace

/// What stays from round to round.
struct LandmarkEngine::Model {
  Model(const kernel::KernelFunction& kernel, const kernel::Features& features, RowList landmarks, LandmarkSpace made)
      : columns(kernel, features, landmarks), space(std::move(made)), gram(columns) {}

  kernel::FloatColumns columns;
  LandmarkSpace space;
  LandmarkGram gram;
  RowList rows;             // that gram is the sum of
  std::size_t updates = 0;  // since it was summed afresh
  Matrix<double> start;     // last round's w

  RowList scored_rows;  // and, in their order, the scores of the last pass with what it saw
  std::vector<double> scores;
  Matrix<double> scored_vectors;  // ScaledVectors of the solution that the pass was with
  double residual = 0;
};

std::size_t DefaultLandmarks(std::size_t rows) {
  const auto affordable =
      static_cast<std::size_t>(std::sqrt(kGramWork / static_cast<double>(std::max<std::size_t>(rows, 1))));
  return std::min(rows, std::clamp(affordable, kFewestLandmarks, kMostLandmarks));
}

std::size_t LandmarkBytes(std::size_t landmarks, std::size_t dims) {
  // The factor, the sum, and the projected sum with its transpose's pages; then a block of tiles, and the features.
  return 3 * sizeof(double) * landmarks * landmarks + sizeof(float) * landmarks * (4096 + dims) +
         (std::size_t{16} << 20);
}

LandmarkEngine::LandmarkEngine(const kernel::KernelFunction& kernel, const kernel::Features& features)
    : kernel_(kernel), features_(features) {}

LandmarkEngine::~LandmarkEngine() = default;

absl::Status LandmarkEngine::Begin(std::span<const RowIndex> rows, const LandmarkRequest& request) {
  const std::size_t count = request.landmarks > 0 ? request.landmarks : DefaultLandmarks(rows.size());
  RowList landmarks = SampleRows(rows, count, request.seed, kLandmarkStream);
  FULCRUM_ASSIGN_OR_RETURN(LandmarkSpace space, LandmarkSpace::Make(kernel_, features_, landmarks));
  model_ = std::make_unique<Model>(kernel_, features_, std::move(landmarks), std::move(space));
  return absl::OkStatus();
}

void LandmarkEngine::UpdateGram(std::span<const RowIndex> rows, const LandmarkRequest& request,
                                LandmarkScores& result) {
  RowList summed = SummedPart(rows, request.most_summed);
  const RowList entered = RowsOnlyIn(summed, model_->rows), left = RowsOnlyIn(model_->rows, summed);
  const std::size_t changed = entered.size() + left.size();
  result.warm = static_cast<double>(changed) <= kLargestChangedShare * static_cast<double>(summed.size()) &&
                !model_->rows.empty() && model_->updates < kUpdatesBetweenSums;
  if (result.warm) {
    model_->gram.Subtract(left);
    model_->gram.Add(entered);
  } else {
    model_->gram.Clear();
    model_->gram.Add(summed);
  }
  model_->updates = result.warm ? model_->updates + 1 : 0;
  result.rows_summed = result.warm ? changed : summed.size();
  model_->rows = std::move(summed);
}

double LandmarkEngine::TraceOf(std::span<const RowIndex> rows) const {
  double trace = 0;
  for (RowIndex row : rows) trace += kernel::KernelDiagonal(kernel_, features_.squared_norms()[row]);
  return trace;
}

absl::Status LandmarkEngine::CompareWithExact(std::span<const RowIndex> rows, const LandmarkRequest& request,
                                              LandmarkQuality& quality) const {
  const RowList compared = SampleRows(rows, kComparedRows, request.seed, kComparedStream);
  FULCRUM_ASSIGN_OR_RETURN(quality.collected_share, CollectedShare(kernel_, features_, model_->columns.rows(),
                                                                   model_->space, compared, request.tau));
  quality.sample = compared.size();
  return absl::OkStatus();
}

absl::Status LandmarkEngine::ScoreWith(const SpanSolution& solution, std::span<const RowIndex> rows,
                                       const LandmarkRequest& request, LandmarkScores& result) {
  Matrix<double> vectors = ScaledVectors(solution.eigen);
  bool carry = false;
  if (result.warm && !model_->scores.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const double change, LargestChange(vectors.view(), model_->scored_vectors.view()));
    double largest_diagonal = 0;
    for (RowIndex row : rows) {
      largest_diagonal = std::max(largest_diagonal, kernel::KernelDiagonal(kernel_, features_.squared_norms()[row]));
    }
    result.largest_change = change * largest_diagonal;
    carry = result.largest_change * static_cast<double>(rows.size()) <=
            kNegligibleChange * static_cast<double>(solution.eigen.rank);
  }
  const RowList entered = carry ? RowsOnlyIn(rows, model_->scored_rows) : RowList();
  const std::span<const RowIndex> looked_at = carry ? std::span<const RowIndex>(entered) : rows;
  const RowList sample = carry ? RowList() : SampleRows(rows, kResidualRows, request.seed, kResidualStream);
  LandmarkPass pass = ScoreRows(kernel_, features_, model_->columns, solution, looked_at, sample);
  result.rows_scored = looked_at.size();
  if (carry) {
    result.scores = CarryScores(rows, model_->scored_rows, model_->scores, pass.scores);
  } else {
    result.scores = std::move(pass.scores);
    model_->scored_vectors = std::move(vectors);
    model_->residual = pass.residual;
  }
  model_->scores = result.scores;
  model_->scored_rows.assign(rows.begin(), rows.end());
  result.quality.residual = model_->residual;
  return absl::OkStatus();
}

absl::StatusOr<LandmarkScores> LandmarkEngine::Score(std::span<const RowIndex> rows, const LandmarkRequest& request) {
  const double trace = TraceOf(rows);
  FULCRUM_RETURN_IF_ERROR(CheckScorable(request.tau, rows.size(), trace));
  const bool first = model_ == nullptr;
  if (first) FULCRUM_RETURN_IF_ERROR(Begin(rows, request));
  LandmarkScores result;
  UpdateGram(rows, request, result);
  const double share = static_cast<double>(rows.size()) / static_cast<double>(model_->rows.size());
  FULCRUM_ASSIGN_OR_RETURN(SpanSolution solution, model_->space.Solve(model_->gram.Symmetric(share), trace, request.tau,
                                                                      request.seed, model_->start.view()));
  FULCRUM_RETURN_IF_ERROR(ScoreWith(solution, rows, request, result));
  result.rank = solution.eigen.rank;
  result.trace_share = solution.eigen.trace_share;
  result.quality.captured_share = solution.captured_share;
  // Landmarks stay, and so does what they are worth.
  if (first) FULCRUM_RETURN_IF_ERROR(CompareWithExact(rows, request, result.quality));
  model_->start = std::move(solution.eigen.vectors);
  result.reason = Describe(result, model_->columns.size());
  return result;
}

}  // namespace fulcrum::leverage
