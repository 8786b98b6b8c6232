#include "stages/leverage/landmark_engine.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/landmarks.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/leverage/leverage_scores.h"

namespace fulcrum::leverage {
namespace {

// Rows whose residuals are computed, and rows of the comparison with exact scores.
constexpr std::size_t kResidualRows = 64;
constexpr std::size_t kComparedRows = 1000;
// Streams of the seed, so that landmarks and samples are independent.
constexpr std::uint64_t kResidualStream = 12, kComparedStream = 13;
// An update costs as much per row as the first sum; above this share of changes the sum is computed again.
constexpr double kLargestChangedShare = 0.4;
// Rounding errors of updates accumulate; after this many updates the sum is computed again.
constexpr std::size_t kUpdatesBetweenSums = 32;
// Scores that moved by at most this share of their mean are within float32 rounding.
constexpr double kNegligibleChange = 1e-4;

std::string Describe(const LandmarkScores& scores, std::size_t landmarks) {
  std::string text =
      absl::StrFormat("%d landmarks capture %.3f of the trace, residual %.1e; %s %d of %d rows", landmarks,
                      scores.quality.captured_share, scores.quality.residual,
                      scores.warm ? "updated by" : "summed over", scores.rows_summed, scores.scores.size());
  if (scores.vectors_refined > 0) {
    absl::StrAppendFormat(&text, "; %d vectors refined by a product with the whole kernel", scores.vectors_refined);
  }
  if (!scores.not_refined.empty()) {
    absl::StrAppendFormat(&text, "; not refined, scores are as the landmarks show them: %s", scores.not_refined);
  }
  if (scores.rows_scored < scores.scores.size()) {
    absl::StrAppendFormat(&text, "; scored %d, the others cannot have moved by more than %.1e", scores.rows_scored,
                          scores.slack);
  }
  if (scores.quality.sample > 0) {
    absl::StrAppendFormat(&text,
                          "; on a sample of %d rows the best twentieth collects %.3f of the exact one's leverage",
                          scores.quality.sample, scores.quality.collected_share);
  }
  return text;
}

std::size_t WantedLandmarks(std::size_t rows, const LandmarkRequest& request) {
  return request.landmarks > 0 ? std::min(request.landmarks, rows) : DefaultLandmarks(rows);
}

/// Scores as the last pass over all rows would give them. Rows that entered since were scored with its solution too, so
/// that one bound holds for all of them.
struct LastPass {
  RowList rows;
  std::vector<double> scores;  // in their order
  Matrix<float> projection;    // of its solution
  Matrix<double> vectors;      // ScaledVectors of the solution
  double residual = 0;
  bool one_left_out = false;  // landmarks were corrected (leave-one-out)
};

}  // namespace

/// What stays from round to round.
struct LandmarkEngine::Model {
  Model(const kernel::KernelFunction& kernel, const kernel::Features& features, const RowList& chosen,
        KernelSubspace made, const SumOrder& order)
      : landmarks(kernel, features, chosen), span(std::move(made)), gram(landmarks, order) {}

  kernel::KernelTiles<float> landmarks;
  KernelSubspace span;
  LandmarkGram gram;
  RowList rows;             // that gram is the sum of
  std::size_t updates = 0;  // since it was summed over all rows
  SpanSolution solution;    // of the last round
  LastPass last_pass;
  bool leave_one_out = false;  // in this round
  std::vector<double> unseen;  // OwnParts of the span, once they are needed

  LeadingVectors VectorsOf(const Matrix<float>& projection, std::span<const double> values = {}) const {
    return VectorsSeen({&landmarks, &projection, leave_one_out ? std::span(unseen) : std::span<const double>()},
                       values);
  }
};

LandmarkEngine::LandmarkEngine(const kernel::KernelFunction& kernel, const kernel::Features& features,
                               const BlockStream& stream)
    : kernel_(kernel), features_(features), stream_(stream) {}

LandmarkEngine::~LandmarkEngine() = default;

absl::Status LandmarkEngine::Begin(std::span<const RowIndex> rows, const LandmarkRequest& request) {
  const std::size_t wanted = WantedLandmarks(rows.size(), request);
  RowList landmarks(request.chosen.begin(), request.chosen.end());
  if (landmarks.empty() || CoverTooFew(rows, landmarks, wanted)) {
    landmarks = SampleRows(rows, wanted, request.seed, kLandmarkStream);
  }
  FULCRUM_ASSIGN_OR_RETURN(KernelSubspace span, KernelSubspace::OfLandmarks(kernel_, features_, landmarks));
  model_ = std::make_unique<Model>(kernel_, features_, landmarks, std::move(span),
                                   OrderOfClass(features_.rows(), rows.size(), LargestDiagonal(rows)));
  return absl::OkStatus();
}

void LandmarkEngine::UpdateGram(std::span<const RowIndex> rows, const LandmarkRequest& request,
                                LandmarkScores& result) {
  RowList summed = SummedPart(rows, rows.size(), request.most_summed);
  const RowList entered = RowsOnlyIn(summed, model_->rows), left = RowsOnlyIn(model_->rows, summed);
  const std::size_t changed = entered.size() + left.size();
  result.warm = static_cast<double>(changed) <= kLargestChangedShare * static_cast<double>(summed.size()) &&
                !model_->rows.empty() && model_->updates < kUpdatesBetweenSums;
  if (result.warm) {
    model_->gram.Subtract(left, stream_);
    model_->gram.Add(entered, stream_);
  } else {
    model_->gram.Clear();
    model_->gram.Add(summed, stream_);
  }
  model_->updates = result.warm ? model_->updates + 1 : 0;
  result.rows_summed = result.warm ? changed : summed.size();
  model_->rows = std::move(summed);
}

std::span<const RowIndex> LandmarkEngine::landmarks() const {
  return model_ == nullptr ? std::span<const RowIndex>() : model_->landmarks.columns();
}

double LandmarkEngine::TraceOf(std::span<const RowIndex> rows) const {
  return TraceOfRows(kernel_, features_, rows, LargestDiagonal(rows) * static_cast<double>(rows.size()));
}

double LandmarkEngine::LargestDiagonal(std::span<const RowIndex> rows) const {
  double largest = 0;
  for (RowIndex row : rows) {
    largest = std::max(largest, kernel::KernelDiagonal(kernel_, features_.squared_norms()[row]));
  }
  return largest;
}

absl::Status LandmarkEngine::CompareWithExact(std::span<const RowIndex> rows, const LandmarkRequest& request,
                                              LandmarkQuality& quality) const {
  const RowList compared = SampleRows(rows, kComparedRows, request.seed, kComparedStream);
  FULCRUM_ASSIGN_OR_RETURN(quality.collected_share,
                           CollectedShare(kernel_, features_, model_->landmarks.columns(), model_->span, compared,
                                          request.tau, request.refine));
  quality.sample = compared.size();
  return absl::OkStatus();
}

absl::StatusOr<double> LandmarkEngine::ChangeSinceLastPass(std::span<const RowIndex> rows) const {
  const Matrix<double> vectors = ScaledVectors(model_->solution.eigen);
  FULCRUM_ASSIGN_OR_RETURN(const double change, LargestChange(vectors.view(), model_->last_pass.vectors.view()));
  return change * LargestDiagonal(rows);
}

void LandmarkEngine::ScoreNewcomers(std::span<const RowIndex> rows, LandmarkScores& result) {
  LastPass& last = model_->last_pass;
  const RowList entered = RowsOnlyIn(rows, last.rows);
  const LandmarkPass pass = ScoreRows(kernel_, features_, model_->VectorsOf(last.projection), entered, {}, stream_);
  result.scores = last.scores = CarryValues(rows, last.rows, last.scores, pass.scores);
  result.rows_scored = entered.size();
  last.rows.assign(rows.begin(), rows.end());
}

absl::Status LandmarkEngine::ScoreAll(std::span<const RowIndex> rows, const LandmarkRequest& request,
                                      LandmarkScores& result) {
  LastPass& last = model_->last_pass;
  model_->leave_one_out = rows.size() >= kLeastRowsForOne * landmarks().size();
  if (model_->leave_one_out && model_->unseen.empty()) model_->unseen = model_->span.OwnParts();
  if (result.warm && !last.scores.empty() && last.one_left_out == model_->leave_one_out) {
    FULCRUM_ASSIGN_OR_RETURN(result.slack, ChangeSinceLastPass(rows));
    const double negligible =
        kNegligibleChange * static_cast<double>(model_->solution.eigen.rank) / static_cast<double>(rows.size());
    if (request.bounds_suffice || result.slack <= negligible) {
      ScoreNewcomers(rows, result);
      result.quality.residual = last.residual;
      return absl::OkStatus();
    }
  }
  const RowList sample = SampleRows(rows, kResidualRows, request.seed, kResidualStream);
  const SpanSolution& solution = model_->solution;
  LandmarkPass pass = ScoreRows(kernel_, features_, model_->VectorsOf(solution.projection, solution.eigen.values), rows,
                                sample, stream_);
  result.slack = 0;
  result.scores = std::move(pass.scores);
  result.rows_scored = rows.size();
  result.quality.residual = last.residual = pass.residual;
  RememberPass(rows, result.scores);
  return absl::OkStatus();
}

absl::Status LandmarkEngine::ScoreRefined(std::span<const RowIndex> rows, const LandmarkRequest& request,
                                          std::size_t count, LandmarkScores& result) {
  const Matrix<float> projection = model_->span.Projection(model_->solution.eigen, count);
  const Matrix<float> start = ExtendToRows(model_->landmarks, projection.view(), rows, stream_);
  const RowList sample = SampleRows(rows, kResidualRows, request.seed, kResidualStream);
  FULCRUM_ASSIGN_OR_RETURN(RefinedScores refined,
                           Refine(kernel_, features_, rows, start.view(),
                                  {.trace = TraceOf(rows), .tau = request.tau, .seed = request.seed}, sample, stream_));
  result.scores = std::move(refined.pass.scores);
  result.rank = refined.rank;
  result.trace_share = refined.trace_share;
  result.quality.residual = refined.pass.residual;
  result.rows_scored = rows.size();
  result.vectors_refined = count;
  return absl::OkStatus();
}

void LandmarkEngine::RememberPass(std::span<const RowIndex> rows, std::span<const double> scores) {
  LastPass& last = model_->last_pass;
  last.rows.assign(rows.begin(), rows.end());
  last.scores.assign(scores.begin(), scores.end());
  last.vectors = ScaledVectors(model_->solution.eigen);
  last.projection = model_->solution.projection.Clone();
  last.one_left_out = model_->leave_one_out;
}

std::vector<double> LandmarkEngine::Rescore(std::span<const RowIndex> rows) {
  LandmarkPass pass = ScoreRows(kernel_, features_, model_->VectorsOf(model_->solution.projection), rows, {}, stream_);
  if (rows.size() == model_->last_pass.rows.size()) RememberPass(rows, pass.scores);
  return std::move(pass.scores);
}

absl::StatusOr<LandmarkScores> LandmarkEngine::Score(std::span<const RowIndex> rows, const LandmarkRequest& request) {
  const double trace = TraceOf(rows);
  FULCRUM_RETURN_IF_ERROR(CheckScorable(request.tau, rows.size(), trace));
  const bool first = model_ == nullptr || CoverTooFew(rows, landmarks(), WantedLandmarks(rows.size(), request));
  if (first) FULCRUM_RETURN_IF_ERROR(Begin(rows, request));
  LandmarkScores result;
  UpdateGram(rows, request, result);
  SpanSolution& solution = model_->solution;
  // Refining takes vectors from beyond the rank, which are not settled: a start would make them depend on the rounds
  // before, which a restarted process does not know.
  const Matrix<double> start = request.refine ? Matrix<double>() : std::move(solution.eigen.vectors);
  const double share = static_cast<double>(rows.size()) / static_cast<double>(model_->rows.size());
  FULCRUM_ASSIGN_OR_RETURN(
      solution, model_->span.Solve(model_->gram.Symmetric(share), trace, request.tau, request.seed, start.view()));
  result.rank = solution.eigen.rank;
  result.trace_share = solution.eigen.trace_share;
  result.quality.captured_share = solution.captured_share;
  const std::size_t refined = request.refine ? VectorsToRefine(solution.eigen) : 0;
  absl::Status scored = refined > 0 ? ScoreRefined(rows, request, refined, result) : ScoreAll(rows, request, result);
  if (refined > 0 && absl::IsInvalidArgument(scored)) {
    // The refined functions depend on each other: the unrefined scores are used.
    result.not_refined = std::string(scored.message());
    scored = ScoreAll(rows, request, result);
  }
  FULCRUM_RETURN_IF_ERROR(scored);
  // Landmarks stay, and so does what they are worth.
  if (first) FULCRUM_RETURN_IF_ERROR(CompareWithExact(rows, request, result.quality));
  result.reason = Describe(result, model_->landmarks.size());
  return result;
}

namespace {

// Squares of it are finite in single precision, in which the landmarks' columns are.
constexpr double kLargestFloatValue = 1e18;

/// The landmark engine of the registry.
class LandmarkLeverage final : public LeverageEngine {
 public:
  explicit LandmarkLeverage(const EngineParts& parts)
      : kernel_(parts.kernel), features_(&parts.features), stream_(parts.stream) {}

  absl::StatusOr<ClassScores> Score(std::span<const RowIndex> rows, const ClassRequest& request) override {
    FULCRUM_RETURN_IF_ERROR(kernel::CheckKernelValues(kernel_, features_->squared_norms(), rows, kLargestFloatValue));
    FULCRUM_ASSIGN_OR_RETURN(std::optional<ClassScores> low_rank, ScoreLowRank(kernel_, *features_, rows, request.tau));
    if (low_rank) {
      low_rank->engine = "landmark";
      return *std::move(low_rank);
    }
    FULCRUM_ASSIGN_OR_RETURN(const EngineChoice choice,
                             ChooseEngine("landmark", SizeOfClass(*features_, rows.size(), request)));
    if (engine_ == nullptr) engine_ = std::make_unique<LandmarkEngine>(kernel_, *features_, stream_);
    FULCRUM_ASSIGN_OR_RETURN(
        LandmarkScores scored,
        engine_->Score(rows, {.tau = request.tau,
                              .seed = request.seed,
                              .landmarks = request.landmarks > 0 ? request.landmarks : choice.landmarks,
                              .chosen = request.recalled,
                              .refine = choice.refine,
                              .bounds_suffice = request.bounds_suffice}));
    ClassScores result;
    result.rows.assign(rows.begin(), rows.end());
    result.scores = std::move(scored.scores);
    result.rank = scored.rank;
    result.trace_share = scored.trace_share;
    result.residual = scored.quality.residual;
    result.warm = scored.warm;
    result.engine = "landmark";
    result.reason = std::move(scored.reason);
    if (request.bounds_suffice && scored.slack > 0) {
      result.slack = scored.slack;
      result.rescore = [this](std::span<const RowIndex> some) { return engine_->Rescore(some); };
    }
    return result;
  }

  /// Forgets the landmarks.
  void MoveTo(const kernel::Features& grown) override {
    features_ = &grown;
    engine_.reset();
  }

  std::span<const RowIndex> landmarks() const override {
    return engine_ != nullptr ? engine_->landmarks() : std::span<const RowIndex>();
  }

 private:
  const kernel::KernelFunction kernel_;
  const kernel::Features* features_;
  const BlockStream& stream_;
  std::unique_ptr<LandmarkEngine> engine_;
};

}  // namespace

std::unique_ptr<LeverageEngine> MakeLandmarkEngine(const EngineParts& parts) {
  return std::make_unique<LandmarkLeverage>(parts);
}

}  // namespace fulcrum::leverage
