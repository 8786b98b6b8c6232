// Measures the time from a stop request to the end of a round, at several points of the round. The round is a worst
// case: leverage on the whole pool, by default from a full decomposition, with LAPACK calls that take seconds each and
// cannot be interrupted.
//
//   bench_cancel [ROWS [ENGINE [SECONDS...]]]
//
// SECONDS are the times of the stop requests after the start of a round. With them no complete round is run first: one
// of 10,000 dense rows takes minutes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/round/round.h"
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
  LongRound(std::size_t rows, const std::string& engine) : features_(RandomPoints(rows)), labels_(rows, kUnlabeled) {
    spec_.strategy = "top-lev";
    spec_.engine = engine;
    spec_.leverage_kernel.sigma = 3;
  }

  /// Returns the seconds of a complete round.
  double Run() {
    const auto begun = Clock::now();
    if (const absl::Status status = RunUntil({}); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
    return SecondsSince(begun);
  }

  /// Returns the seconds from a stop request, this long after the start of the round, to the end of the round.
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

/// Returns times spread over a round, which runs once to measure its duration.
std::vector<double> MomentsOf(LongRound& round) {
  const double whole = round.Run();
  PrintFigure("the whole round", whole, "s");
  std::vector<double> moments;
  for (int i = 0; i < kStops; ++i) moments.push_back(whole * (i + 0.5) / kStops);
  return moments;
}

void MeasureStops(std::size_t rows, const std::string& engine, std::vector<double> moments) {
  PrintHeading("a round that is asked to stop");
  std::printf("  %-62s %9s\n", "engine", engine.c_str());
  PrintFigure("rows", static_cast<double>(rows), "");
  LongRound round(rows, engine);
  if (moments.empty()) moments = MomentsOf(round);
  double longest = 0, latest = 0;
  for (const double moment : moments) {
    const double seconds = round.StopAfter(moment);
    if (seconds > longest) latest = moment;
    longest = std::max(longest, seconds);
  }
  PrintFigure("moments", static_cast<double>(moments.size()), "");
  PrintAtMost("the longest time from the stop to the end", longest, 1, "s");
  PrintFigure("after a stop so long after the beginning", latest, "s");
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main(int count, char** arguments) {
  const std::size_t rows = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 2500;
  std::vector<double> moments;
  for (int i = 3; i < count; ++i) moments.push_back(std::atof(arguments[i]));
  fulcrum::benchmarks::MeasureStops(rows, count > 2 ? arguments[2] : "dense", std::move(moments));
  // LAPACK calls that are still running are abandoned, as in the daemon: they cannot be cancelled.
  std::fflush(stdout);
  std::_Exit(0);
}
