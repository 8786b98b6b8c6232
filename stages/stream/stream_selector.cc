#include "stages/stream/stream_selector.h"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/blas.h"

namespace fulcrum::stream {
namespace {

// Rows that the classifier is sure of differ by their leverage still.
constexpr double kLeastDoubt = 0.05;
constexpr std::uint32_t kStateVersion = 1;

}  // namespace

StreamSelector::StreamSelector(std::shared_ptr<const StreamModel> model, const StreamOptions& options, DriftTest drift)
    : model_(std::move(model)), options_(options), threshold_(options.budget), drift_(std::move(drift)) {}

absl::StatusOr<StreamSelector> StreamSelector::Make(std::shared_ptr<const StreamModel> model,
                                                    const StreamOptions& options) {
  FULCRUM_RETURN_IF_ERROR(ValidateBudget(options.budget));
  if (!(options.novelty_weight >= 0 && std::isfinite(options.novelty_weight))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the weight of novelty is ", options.novelty_weight, "; it must be 0 or more"));
  }
  FULCRUM_ASSIGN_OR_RETURN(DriftTest drift, DriftTest::Make(model, options.drift));
  StreamSelector selector(std::move(model), options, std::move(drift));
  FULCRUM_RETURN_IF_ERROR(selector.StartLeverage());
  return absl::StatusOr<StreamSelector>(std::move(selector));
}

absl::Status StreamSelector::StartLeverage() {
  const std::span<const double> moments = model_->moments();
  const double lambda = std::accumulate(moments.begin(), moments.end(), 0.0);
  const ConstMatrixView labeled = model_->labeled();
  const std::size_t rank = model_->rank();
  Matrix<double> sum = Matrix<double>::Zero(rank, rank);
  if (!labeled.empty()) {
    linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, 1.0, labeled, labeled, 0.0, sum.view());
  }
  for (std::size_t i = 0; i < rank; ++i) sum(i, i) += lambda;
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> lower, linalg::FactorCholesky(std::move(sum)));
  inverse_ = Matrix<double>::Zero(rank, rank);
  for (std::size_t i = 0; i < rank; ++i) inverse_(i, i) = 1;
  linalg::SolveLowerForRows(lower.view(), inverse_.view());
  linalg::SolveLowerTransposedForRows(lower.view(), inverse_.view());
  ScaleLeverage();
  return absl::OkStatus();
}

void StreamSelector::ScaleLeverage() {
  mean_leverage_ = 0;
  for (std::size_t j = 0; j < inverse_.rows(); ++j) mean_leverage_ += inverse_(j, j) * model_->moments()[j];
}

double StreamSelector::LeverageOf(std::span<const double> coordinates) {
  product_.assign(coordinates.size(), 0.0);
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    const double factor = coordinates[i];
    const double* const row = inverse_.row(i).data();
    for (std::size_t j = 0; j < product_.size(); ++j) product_[j] += factor * row[j];
  }
  double sum = 0;
  for (std::size_t j = 0; j < product_.size(); ++j) sum += coordinates[j] * product_[j];
  return sum;
}

void StreamSelector::Take(std::span<const double> coordinates, double leverage) {
  // Sherman and Morrison: (A + z z')^-1 = M - M z z' M / (1 + z' M z).
  const double factor = 1 / (1 + leverage);
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    const double scaled = factor * product_[i];
    double* const row = inverse_.row(i).data();
    for (std::size_t j = 0; j < product_.size(); ++j) row[j] -= scaled * product_[j];
  }
  ScaleLeverage();
}

absl::StatusOr<Decision> StreamSelector::Offer(std::span<const double> row, double seconds) {
  if (row.size() != model_->dims()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the row has ", row.size(), " features; the pool has ", model_->dims()));
  }
  model_->Look(row, view_);
  Decision decision;
  const double leverage = LeverageOf(view_.coordinates);
  decision.leverage = mean_leverage_ > 0 ? leverage / mean_leverage_ : 0;
  decision.uncertainty = view_.uncertainty;
  decision.novelty = view_.novelty;
  decision.score =
      (kLeastDoubt + decision.uncertainty) * (decision.leverage + options_.novelty_weight * decision.novelty);
  if (!std::isfinite(decision.score)) {
    return absl::InvalidArgumentError("the features of the row are not finite, or so large that its kernel is not");
  }
  const BudgetThreshold::Answer answer = threshold_.Offer(decision.score, seconds);
  decision.threshold = answer.threshold;
  decision.take = answer.take;
  if (decision.take) Take(view_.coordinates, leverage);
  decision.drift_alarm = drift_.Offer(view_.coordinates);
  return decision;
}

absl::Status StreamSelector::UseModel(std::shared_ptr<const StreamModel> model) {
  FULCRUM_ASSIGN_OR_RETURN(DriftTest drift, DriftTest::Make(model, options_.drift));
  const std::shared_ptr<const StreamModel> before = std::exchange(model_, std::move(model));
  if (const absl::Status started = StartLeverage(); !started.ok()) {
    model_ = before;
    return started;
  }
  drift.Continue(drift_.report());
  drift_ = std::move(drift);
  threshold_.ForgetScores();
  return absl::OkStatus();
}

std::string StreamSelector::State() const {
  classify::ByteWriter out;
  out.Put(kStateVersion);
  out.Put(model_->fingerprint());
  threshold_.Write(out);
  out.Put(static_cast<std::uint64_t>(inverse_.rows()));
  for (std::size_t i = 0; i < inverse_.rows(); ++i) out.PutDoubles(inverse_.row(i));
  drift_.Write(out);
  out.Put(ChecksumOf(out.bytes()));
  return out.Take();
}

void StreamSelector::Repeat(double score, double seconds, bool taken, std::span<const double> row) {
  threshold_.Repeat(score, seconds, taken);
  if (!taken || row.size() != model_->dims()) return;
  model_->Look(row, view_);
  Take(view_.coordinates, LeverageOf(view_.coordinates));
}

std::string StreamSelector::DriftState() const {
  classify::ByteWriter out;
  drift_.Write(out);
  return out.Take();
}

absl::Status StreamSelector::RestoreDrift(std::string_view state, bool same_model) {
  classify::ByteReader in(state);
  if (!same_model) {
    const DriftReport report = DriftTest::ReadReport(in);
    if (!in.ok()) return absl::InvalidArgumentError("the state of the drift test is damaged");
    drift_.Continue(report);
    return absl::OkStatus();
  }
  DriftTest drift = drift_;
  FULCRUM_RETURN_IF_ERROR(drift.Read(in));
  drift_ = std::move(drift);
  return absl::OkStatus();
}

absl::Status StreamSelector::Restore(std::string_view state) {
  const absl::Status damaged = absl::InvalidArgumentError("the state of the stream is damaged");
  if (state.size() < sizeof(std::uint64_t)) return damaged;
  const std::string_view body = state.substr(0, state.size() - sizeof(std::uint64_t));
  if (classify::ByteReader(state.substr(body.size())).Get<std::uint64_t>() != ChecksumOf(body)) {
    return damaged;
  }
  classify::ByteReader in(body);
  if (in.Get<std::uint32_t>() != kStateVersion) {
    return absl::InvalidArgumentError("the state of the stream is from another version of Fulcrum");
  }
  const bool same_model = in.Get<std::uint64_t>() == model_->fingerprint();
  BudgetThreshold threshold(options_.budget);
  FULCRUM_RETURN_IF_ERROR(threshold.Read(in));
  const auto rank = in.Get<std::uint64_t>();
  if (!in.ok() || rank * rank * sizeof(double) > in.remaining()) return damaged;
  if (same_model && rank != model_->rank()) return damaged;
  Matrix<double> inverse(rank, rank);
  for (std::size_t i = 0; i < rank; ++i) in.GetDoubles(inverse.row(i));
  if (!same_model) {
    // The budget goes on; what was learned of the scores and of similar rows was with the other model.
    threshold.ForgetScores();
    const DriftReport report = DriftTest::ReadReport(in);
    if (!in.ok()) return damaged;
    drift_.Continue(report);
    threshold_ = std::move(threshold);
    return StartLeverage();
  }
  DriftTest drift = drift_;
  FULCRUM_RETURN_IF_ERROR(drift.Read(in));
  threshold_ = std::move(threshold);
  inverse_ = std::move(inverse);
  drift_ = std::move(drift);
  ScaleLeverage();
  return absl::OkStatus();
}

}  // namespace fulcrum::stream
