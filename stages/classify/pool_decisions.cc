#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "stages/classify/classifier.h"
#include "stages/core/parallel.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::classify {
namespace {

// Bounds on the rounding errors of kernel values.

/// For rows of `dims` features with a squared norm of at most `largest_squared_norm`.
struct KernelRounding {
  double largest_value = 0;  ///< bound on |K|
  double value_error = 0;    ///< bound on the difference of two computations of one K by GEMM
};

KernelRounding BoundKernelRounding(const kernel::KernelFunction& kernel, std::size_t dims,
                                   double largest_squared_norm) {
  // |x.z| <= m, and GEMM's sum is off by at most dims * epsilon * m however it is ordered. `slope` is what that becomes
  // in K, |dK / d(x.z)| * m; the added constant covers the handful of roundings in K itself.
  const double m = largest_squared_norm;
  double slope = 1, largest = 1;
  switch (kernel.type) {
    case kernel::KernelType::kRbf:
      slope = 4 * m / (kernel.sigma * kernel.sigma);
      break;
    case kernel::KernelType::kLinear:
      if (!kernel.normalize) slope = largest = m;
      break;
    case kernel::KernelType::kCosine:
    case kernel::KernelType::kSquaredDistance:  // of no model
      break;
    case kernel::KernelType::kPoly:
      // By Cauchy and Schwarz x.z + c <= sqrt((|x|^2 + c)(|z|^2 + c)), so normalised values and slopes have these
      // bounds.
      if (!kernel.normalize) largest = std::pow(m + kernel.offset, kernel.degree);
      slope = kernel.degree * largest;
      break;
  }
  const double epsilon = std::numeric_limits<double>::epsilon();
  return {largest, epsilon * (static_cast<double>(dims) + 8) * (slope + largest)};
}

constexpr double kFloatRounding =
    static_cast<double>(std::numeric_limits<float>::epsilon()) / std::numeric_limits<double>::epsilon();

double LargestColumnMass(ConstMatrixView coefficients) {
  double largest = 0;
  for (std::size_t p = 0; p < coefficients.cols(); ++p) {
    double mass = 0;
    for (std::size_t s = 0; s < coefficients.rows(); ++s) mass += std::abs(coefficients(s, p));
    largest = std::max(largest, mass);
  }
  return largest;
}

double LargestRho(const SvmModel& model) {
  double largest = 0;
  for (const SvmPair& pair : model.pairs) largest = std::max(largest, std::abs(pair.rho));
  return largest;
}

bool SameOffsets(const SvmModel& a, const SvmModel& b) {
  return std::ranges::equal(a.pairs, b.pairs, {}, &SvmPair::rho, &SvmPair::rho);
}

}  // namespace

PoolDecisions::PoolDecisions(const kernel::Features& features, double tolerance)
    : features_(&features), tolerance_(tolerance), all_rows_(features.rows()) {
  std::iota(all_rows_.begin(), all_rows_.end(), RowIndex{0});
  for (double norm : features.squared_norms()) largest_squared_norm_ = std::max(largest_squared_norm_, norm);
}

bool PoolDecisions::SamePairs(const SvmModel& model) const {
  const auto classes = [](const SvmPair& pair) { return std::pair(pair.first, pair.second); };
  return model.kernel == model_.kernel && std::ranges::equal(model.pairs, model_.pairs, {}, classes, classes);
}

PoolDecisions::Change PoolDecisions::ChangeTo(const SvmModel& model) const {
  RowList rows;
  std::set_union(model_.support_rows.begin(), model_.support_rows.end(), model.support_rows.begin(),
                 model.support_rows.end(), std::back_inserter(rows));
  const std::size_t pairs = model.pairs.size();
  Matrix<double> coefficients(rows.size(), pairs);
  Change change;
  std::size_t before = 0, after = 0;
  for (RowIndex row : rows) {
    const bool had = before < model_.support_rows.size() && model_.support_rows[before] == row;
    const bool has = after < model.support_rows.size() && model.support_rows[after] == row;
    bool differs = false;
    for (std::size_t p = 0; p < pairs; ++p) {
      const double delta = (has ? model.coefficients(after, p) : 0) - (had ? model_.coefficients(before, p) : 0);
      coefficients(change.rows.size(), p) = delta;
      differs = differs || delta != 0;
    }
    if (differs) change.rows.push_back(row);
    before += had ? 1 : 0;
    after += has ? 1 : 0;
  }
  change.coefficients = Matrix<double>::CopyOf(coefficients.view().Rows(0, change.rows.size()));
  change.mass = LargestColumnMass(change.coefficients.view());
  return change;
}

/// A sum of `terms` kernel values times coefficients whose magnitudes sum to `mass`.
double PoolDecisions::RoundingBound(const SvmModel& model, double mass, std::size_t terms) const {
  const KernelRounding rounding = BoundKernelRounding(model.kernel, features_->dims(), largest_squared_norm_);
  const double epsilon = std::numeric_limits<double>::epsilon();
  return mass * (rounding.value_error + epsilon * (static_cast<double>(terms) + 2) * rounding.largest_value);
}

/// Adding anything to a decision value rounds it; no value is larger than this model's bound on them.
double PoolDecisions::AdditionBound(const SvmModel& model) const {
  const KernelRounding rounding = BoundKernelRounding(model.kernel, features_->dims(), largest_squared_norm_);
  const double mass = LargestColumnMass(model.coefficients.view());
  return 2 * std::numeric_limits<double>::epsilon() * (LargestRho(model) + mass * rounding.largest_value);
}

void PoolDecisions::Prepare(const SvmModel& model, bool full) {
  const Change& change = running_.change;
  WeightedRows support{features_, change.rows, change.coefficients.view()};
  if (full) {
    support = {features_, model.support_rows, model.coefficients.view()};
    columns_ = model.pairs.size();
    values_.resize(all_rows_.size() * columns_);
  }
  for (std::size_t p = 0; p < model.pairs.size(); ++p) {
    running_.offsets.push_back((full ? 0 : model_.pairs[p].rho) - model.pairs[p].rho);
  }
  running_.product = std::make_unique<KernelProduct>(model.kernel, support, *features_);
}

double PoolDecisions::DriftOfFull(const SvmModel& model) const {
  return RoundingBound(model, LargestColumnMass(model.coefficients.view()), model.support_rows.size()) +
         AdditionBound(model);
}

PoolDecisions::UpdateReport PoolDecisions::Begin(const SvmModel& model) {
  running_ = {.model = &model};
  UpdateReport report;
  report.columns_total = model.support_rows.size();
  if (!has_values_) {
    report.reason = "first model";
  } else if (!SamePairs(model)) {
    report.reason = "other classes or kernel than before";
  } else {
    running_.change = ChangeTo(model);
    const Change& change = running_.change;
    // An offset may change although no multiplier does.
    if (!change.rows.empty() || !SameOffsets(model, model_)) {
      running_.added_drift =
          RoundingBound(model, change.mass, change.rows.size()) + AdditionBound(model_) + AdditionBound(model);
    }
    if (2 * change.rows.size() > report.columns_total) report.reason = "most support vectors changed";
    if (drift_since_ + running_.added_drift > tolerance_) report.reason = "rounding errors reached the tolerance";
  }
  report.full = running_.full = !report.reason.empty();
  if (!report.full) {
    report.reason = running_.change.rows.empty() ? "no support vector changed" : "few support vectors changed";
  }
  if (report.full || running_.added_drift > 0) Prepare(model, report.full);
  has_values_ = false;
  report.columns_updated = report.full ? report.columns_total : running_.change.rows.size();
  if (!report.full) report.drift_bound = drift_at_full_ + drift_since_ + running_.added_drift + DriftOfFull(model);
  // The same sums of float32 kernel values are off by so much more.
  if (features_->precision() == kernel::Precision::kFloat) report.drift_bound *= kFloatRounding;
  return report;
}

PoolDecisions::Block PoolDecisions::ReadRows(std::size_t first, std::size_t count) const {
  return running_.product == nullptr ? Block() : running_.product->Read(std::span(all_rows_).subspan(first, count));
}

void PoolDecisions::UpdateRows(std::size_t first, std::size_t count, const Block& rows) {
  if (running_.product == nullptr) return;
  running_.product->Compute(rows, running_.offsets, /*accumulate=*/!running_.full, mutable_values().Rows(first, count));
}

void PoolDecisions::Finish() {
  if (running_.full) drift_at_full_ = DriftOfFull(*running_.model);
  drift_since_ = running_.full ? 0 : drift_since_ + running_.added_drift;
  model_ = running_.model->Clone();
  has_values_ = true;
  running_ = {};
}

PoolDecisions::UpdateReport PoolDecisions::Update(const SvmModel& model) {
  const UpdateReport report = Begin(model);
  ParallelForBlocks(rows(), kRowsOfBlock, [&](std::size_t first, std::size_t count) { UpdateRows(first, count); });
  Finish();
  return report;
}

}  // namespace fulcrum::classify
