// Whether the rows that arrive still are like those of the pool: a kernel two-sample test in linear time.
//
// The statistic compares a window of m arriving rows with the r reference rows of a StreamModel in its coordinates z,
// whose inner products approximate the kernel: T = m r / (m + r) |mean of z over the window - mean over the
// reference|^2, the squared maximum mean discrepancy of the two samples. A row costs O(rank). If both are samples of
// one distribution, T is distributed as the sum of lambda_j chi_j^2 with lambda the eigenvalues of the covariance of z
// (Gretton, Fukumizu, Harchaoui and Sriperumbudur, A Fast, Consistent Kernel Two-Sample Test, 2009); its quantile is
// that of many draws from there. So the false-alarm rate is that of one window: with 0.001, one window of a thousand
// raises an alarm although nothing has changed. Rows are taken to be independent of each other.
//
// What the kernel cannot see is not tested: a linear kernel sees means only.
//
// Deterministic. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/model_file.h"
#include "stages/stream/stream_model.h"

namespace fulcrum::stream {

struct DriftOptions {
  std::size_t window = 500;         ///< rows of a test
  double false_alarm_rate = 0.001;  ///< of a window
};

struct DriftReport {
  std::uint64_t windows = 0;  ///< tested so far
  std::uint64_t alarms = 0;
  double statistic = 0;   ///< of the last window, over the value that raises an alarm
  bool drifting = false;  ///< whether the last window raised one
};

/// Values above it are an alarm: the quantile 1 - rate of the sum of weights[j] times squared standard normals.
double AlarmValue(std::span<const double> weights, double rate, std::uint64_t seed);

class DriftTest {
 public:
  /// InvalidArgument for a window of no rows or a rate that is not between 0.0001 and 0.5.
  static absl::StatusOr<DriftTest> Make(std::shared_ptr<const StreamModel> model, const DriftOptions& options);

  /// The next row; true if it completes a window that raises an alarm.
  bool Offer(std::span<const double> coordinates);
  const DriftReport& report() const { return report_; }
  /// The windows before, with another model: the counts go on.
  void Continue(const DriftReport& report) { report_ = report; }

  void Write(classify::ByteWriter& out) const;
  absl::Status Read(classify::ByteReader& in);
  /// The first part of what Write wrote, which does not depend on the model.
  static DriftReport ReadReport(classify::ByteReader& in);

 private:
  std::size_t window_ = 0;
  double scale_ = 0;  // m r / (m + r)
  double alarm_value_ = 0;
  std::vector<double> mean_;  // of the reference rows
  std::vector<double> sum_;   // of the rows in the window so far
  std::uint64_t rows_ = 0;    // in the window so far
  DriftReport report_;
};

}  // namespace fulcrum::stream
