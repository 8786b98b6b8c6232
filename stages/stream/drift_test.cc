#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/top_eigen.h"
#include "stages/stream/stream_selector.h"

namespace fulcrum::stream {
namespace {

constexpr double kLeastRate = 1e-4, kMostRate = 0.5;
// So many draws lie beyond the quantile: its rate is right to 7 percent.
constexpr double kDrawsBeyond = 200;
constexpr std::uint64_t kDrawStream = 33;

std::vector<double> MeanOf(ConstMatrixView rows) {
  std::vector<double> mean(rows.cols(), 0.0);
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    for (std::size_t j = 0; j < rows.cols(); ++j) mean[j] += rows(i, j);
  }
  for (double& value : mean) value /= static_cast<double>(rows.rows());
  return mean;
}

absl::StatusOr<std::vector<double>> EigenvaluesOfCovariance(ConstMatrixView rows, std::span<const double> mean) {
  Matrix<double> covariance = Matrix<double>::Zero(rows.cols(), rows.cols());
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    for (std::size_t a = 0; a < rows.cols(); ++a) {
      for (std::size_t b = 0; b < rows.cols(); ++b) {
        covariance(a, b) += (rows(i, a) - mean[a]) * (rows(i, b) - mean[b]) / static_cast<double>(rows.rows() - 1);
      }
    }
  }
  FULCRUM_ASSIGN_OR_RETURN(linalg::FullEigen eigen, linalg::DecomposeSymmetric(std::move(covariance)));
  for (double& value : eigen.values) value = std::max(value, 0.0);
  return std::move(eigen.values);
}

}  // namespace

double AlarmValue(std::span<const double> weights, double rate, std::uint64_t seed) {
  Random random = Random::Fork(seed, kDrawStream);
  std::vector<double> draws(static_cast<std::size_t>(kDrawsBeyond / rate));
  for (double& draw : draws) {
    for (const double weight : weights) {
      const double normal = random.Normal();
      draw += weight * normal * normal;
    }
  }
  const auto place = draws.end() - static_cast<std::ptrdiff_t>(kDrawsBeyond);
  std::nth_element(draws.begin(), place, draws.end());
  return *place;
}

absl::StatusOr<DriftTest> DriftTest::Make(std::shared_ptr<const StreamModel> model, const DriftOptions& options) {
  if (options.window == 0) return absl::InvalidArgumentError("the window of the drift test has no rows");
  if (!(options.false_alarm_rate >= kLeastRate && options.false_alarm_rate <= kMostRate)) {
    return absl::InvalidArgumentError(absl::StrCat("the false-alarm rate is ", options.false_alarm_rate,
                                                   "; it must be from ", kLeastRate, " to ", kMostRate));
  }
  DriftTest test;
  test.window_ = options.window;
  const auto m = static_cast<double>(options.window), r = static_cast<double>(model->reference().rows());
  test.scale_ = m * r / (m + r);
  test.mean_ = MeanOf(model->reference());
  test.sum_.assign(test.mean_.size(), 0.0);
  FULCRUM_ASSIGN_OR_RETURN(std::vector<double> weights, EigenvaluesOfCovariance(model->reference(), test.mean_));
  // What adds nothing to the sum only takes time.
  const double least = 1e-4 * *std::ranges::max_element(weights);
  std::erase_if(weights, [&](double weight) { return weight < least; });
  test.alarm_value_ = AlarmValue(weights, options.false_alarm_rate, 1);
  return test;
}

bool DriftTest::Offer(std::span<const double> coordinates) {
  for (std::size_t j = 0; j < sum_.size(); ++j) sum_[j] += coordinates[j];
  if (++rows_ < window_) return false;
  double distance = 0;
  for (std::size_t j = 0; j < sum_.size(); ++j) {
    const double difference = sum_[j] / static_cast<double>(rows_) - mean_[j];
    distance += difference * difference;
  }
  const double statistic = scale_ * distance;
  report_.statistic = alarm_value_ > 0 ? statistic / alarm_value_ : 0;
  report_.drifting = statistic > alarm_value_;
  ++report_.windows;
  if (report_.drifting) ++report_.alarms;
  std::ranges::fill(sum_, 0.0);
  rows_ = 0;
  return report_.drifting;
}

void DriftTest::Write(classify::ByteWriter& out) const {
  out.Put(report_.windows);
  out.Put(report_.alarms);
  out.Put(report_.statistic);
  out.Put(static_cast<std::uint8_t>(report_.drifting));
  out.Put(rows_);
  out.PutDoubles(sum_);
}

DriftReport DriftTest::ReadReport(classify::ByteReader& in) {
  DriftReport report;
  report.windows = in.Get<std::uint64_t>();
  report.alarms = in.Get<std::uint64_t>();
  report.statistic = in.Get<double>();
  report.drifting = in.Get<std::uint8_t>() != 0;
  return report;
}

absl::Status DriftTest::Read(classify::ByteReader& in) {
  report_ = ReadReport(in);
  rows_ = in.Get<std::uint64_t>();
  in.GetDoubles(sum_);
  if (!in.ok() || rows_ >= window_) return absl::InvalidArgumentError("the state of the drift test is damaged");
  return absl::OkStatus();
}

}  // namespace fulcrum::stream
