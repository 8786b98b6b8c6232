// How long a round goes on after it was asked to stop, at moments all over it. The round is a bad one: a full
// decomposition of a kernel matrix over the whole pool, whose parts in LAPACK take seconds each and know of no stop.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "pipeline/round.h"
#include "stages/core/random.h"
#include "stages/kernel/features.h"
#include "tests/benchmarks/ratio_report.h"

namespace fulcrum::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kDims = 20;
constexpr int kStops = 20;

Matrix<double> RandomPoints(std::size_t rows) {
  Random random(3);
  Matrix<double> points(rows, kDims);
  for (std::size_t row = 0; row < rows; ++row) {
    for (double& value : points.row(row)) value = random.Normal();
  }
  return points;
}

double SecondsSince(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

class LongRound {
 public:
  explicit LongRound(std::size_t rows) : features_(RandomPoints(rows)), labels_(rows, kUnlabeled) {
    spec_.strategy = "top-lev";
    spec_.engine = "dense";
    spec_.leverage_kernel.sigma = 3;
  }

  /// Seconds of the whole round.
  double Run() {
    const auto begun = Clock::now();
    if (!RunUntil({}).ok()) std::exit(1);
    return SecondsSince(begun);
  }

  /// Seconds that the round goes on after a stop which comes this long after its beginning.
  double StopAfter(double seconds) {
    std::stop_source stop;
    Clock::time_point asked;
    std::jthread stopper([&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      asked = Clock::now();
      stop.request_stop();
    });
    const bool finished = RunUntil(stop.get_token()).ok();
    const auto ended = Clock::now();
    stopper.join();
    return finished ? 0 : std::chrono::duration<double>(ended - asked).count();
  }

 private:
  absl::Status RunUntil(std::stop_token stop) {
    pipeline::RoundRunner runner(spec_, features_);
    return runner.Run({.class_count = 2, .labels = labels_, .predictions = {}}, {}, std::move(stop)).status();
  }

  kernel::DenseFeatures features_;
  std::vector<ClassIndex> labels_;
  pipeline::RoundSpec spec_;
};

void MeasureStops(std::size_t rows) {
  LongRound round(rows);
  const double whole = round.Run();
  double longest = 0;
  for (int i = 0; i < kStops; ++i) longest = std::max(longest, round.StopAfter(whole * (i + 0.5) / kStops));
  PrintHeading("a round that is asked to stop at 20 moments of a full decomposition");
  PrintFigure("rows", static_cast<double>(rows), "");
  PrintFigure("the whole round", whole, "s");
  PrintAtMost("the longest time from the stop to the end", longest, 1, "s");
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main(int count, char** arguments) {
  const std::size_t rows = count == 2 ? std::strtoull(arguments[1], nullptr, 10) : 0;
  fulcrum::benchmarks::MeasureStops(rows > 0 ? rows : 2500);
}
