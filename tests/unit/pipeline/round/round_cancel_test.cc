// A round that is asked to stop inside a stage ends inside that stage.
#include <algorithm>
#include <atomic>
#include <stop_token>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pipeline/round/round.h"
#include "stages/kernel/features.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kCancelRows = 2000;
constexpr std::size_t kCancelLabeled = 600;

Matrix<double> CancelledClouds() {
  Matrix<double> points = testing::RandomMatrix(kCancelRows, 4, 1);
  for (std::size_t row = 0; row < kCancelRows; ++row) points(row, 0) += row % 2 == 0 ? -1.5 : 1.5;
  return points;
}

/// Dense features behind a gate: once it is armed, the second block of inner products asks to stop.
class GatedFeatures final : public kernel::InnerProductFeatures {
 public:
  explicit GatedFeatures(std::stop_source& stop) : stop_(stop) {
    squared_norms_.assign(dense_.squared_norms().begin(), dense_.squared_norms().end());
  }
  std::size_t dims() const override { return dense_.dims(); }
  void WriteInnerProducts(std::span<const RowIndex> a, std::span<const RowIndex> b,
                          MutableMatrixView out) const override {
    if (armed && ++blocks == 2) stop_.request_stop();
    MultiplyRows(dense_.Pack(a), 0, dense_.Pack(b), 0, out);
  }

  mutable std::atomic<bool> armed = false;
  mutable std::atomic<int> blocks = 0;

 private:
  kernel::DenseFeatures dense_{CancelledClouds()};
  std::stop_source& stop_;
};

class RoundCancelTest : public ::testing::Test {
 protected:
  RoundCancelTest() : labels_(kCancelRows, kUnlabeled) {
    for (std::size_t row = 0; row < kCancelLabeled; ++row) labels_[row] = static_cast<ClassIndex>(row % 2);
  }
  RoundInput Input() const { return {.class_count = 2, .labels = labels_, .predictions = {}}; }
  static RoundSpec Spec(const std::string& strategy) {
    RoundSpec spec;
    spec.strategy = strategy;
    spec.leverage_kernel.sigma = 3;
    spec.svm.kernel.sigma = 2;
    return spec;
  }
  /// What a round says that is asked to stop as soon as `stage` has begun.
  std::string StoppedAt(const std::string& stage, const std::string& strategy) {
    std::stop_source stop;
    RoundRunner runner(Spec(strategy), features_);
    const auto at_stage = [&](std::string_view now, std::size_t, std::size_t) {
      if (now == stage) stop.request_stop();
    };
    const absl::Status status = runner.Run(Input(), at_stage, stop.get_token()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    return std::string(status.message());
  }

  kernel::DenseFeatures features_{CancelledClouds()};
  std::vector<ClassIndex> labels_;
};

TEST_F(RoundCancelTest, EveryStageThatTakesTimeEndsInTheMiddle) {
  // One class at a time: the other's earlier stage must not be the one that ends first.
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  for (const std::string stage : {"train", "predict", "score", "select"}) {
    EXPECT_EQ(StoppedAt(stage, "dbalevs"), stage + ": stopped on request");
  }
}

TEST_F(RoundCancelTest, EveryStrategyThatTakesTimeEndsInTheMiddle) {
  for (const std::string strategy : {"dbalevs", "hybrid", "ted", "quire", "nearopt"}) {
    EXPECT_EQ(StoppedAt("select", strategy), "select: stopped on request") << strategy;
  }
}

TEST_F(RoundCancelTest, AStageThatIsAtWorkBeginsNoFurtherBlock) {
  // So few blocks are at work at once that there is always one that must not begin.
  const tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
  for (const std::string stage : {"train", "predict", "score"}) {
    std::stop_source stop;
    const GatedFeatures features(stop);
    RoundRunner runner(Spec("dbalevs"), features);
    const auto arm = [&](std::string_view now, std::size_t, std::size_t) { features.armed = now == stage; };
    const absl::Status status = runner.Run(Input(), arm, stop.get_token()).status();
    EXPECT_EQ(status.message(), stage + ": stopped on request");
    // One block a thread may have begun before it could know.
    EXPECT_LE(features.blocks, 4) << stage;
  }
}

TEST_F(RoundCancelTest, TheRoundAfterACancelledOneIsSound) {
  std::stop_source stop;
  RoundRunner runner(Spec("dbalevs"), features_), undisturbed(Spec("dbalevs"), features_);
  const auto at_score = [&](std::string_view now, std::size_t, std::size_t) {
    if (now == "score") stop.request_stop();
  };
  ASSERT_FALSE(runner.Run(Input(), at_score, stop.get_token()).ok());
  const auto after = runner.Run(Input());
  const auto expected = undisturbed.Run(Input());
  ASSERT_TRUE(after.ok() && expected.ok());
  const auto row_of = [](const select::Pick& pick) { return pick.row; };
  EXPECT_TRUE(std::ranges::equal(after->selection.picks, expected->selection.picks, {}, row_of, row_of));
}

}  // namespace
}  // namespace fulcrum::pipeline
