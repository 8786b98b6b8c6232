#include "pipeline/cluster/cluster_round.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/round/round.h"
#include "tests/support/matrices.h"
#include "tests/support/thread_communicator.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kRows = 6000;
constexpr std::size_t kDims = 10;

/// Three overlapping clouds of different sizes.
Matrix<double> Clouds() {
  Matrix<double> points = testing::RandomMatrix(kRows, kDims, 7);
  for (std::size_t row = 0; row < kRows; ++row) points(row, row % 7 < 4 ? 0 : 1) += row % 7 < 2 ? -2.0 : 2.0;
  return points;
}

std::vector<ClassIndex> Labels(std::size_t labeled, std::size_t classes) {
  std::vector<ClassIndex> labels(kRows, kUnlabeled);
  for (std::size_t i = 0; i < labeled; ++i) {
    const std::size_t row = i * 2654435761U % kRows;
    labels[row] = static_cast<ClassIndex>(row % 7 < 2 ? 0 : row % 7 < 4 ? 1 % classes : 2 % classes);
  }
  return labels;
}

RoundSpec Spec(const std::string& strategy) {
  RoundSpec spec;
  spec.strategy = strategy;
  spec.batch = 60;
  spec.leverage_kernel.sigma = 4;
  spec.svm.kernel.sigma = 3;
  return spec;
}

RoundSpec WithLandmarks(RoundSpec spec) {
  spec.engine = "landmark";
  spec.refine_landmarks = false;
  spec.landmarks = 150;
  return spec;
}

Matrix<double> RowsOf(const Matrix<double>& points, const RowShare& share) {
  return Matrix<double>::CopyOf(points.view().Rows(share.first, share.count));
}

/// What the ranks found, which all of them must agree on. `more` has what a round is given besides labels.
RoundResult RunOn(int ranks, const RoundSpec& spec, const Matrix<double>& points, std::span<const ClassIndex> labels,
                  std::size_t classes, kernel::Precision precision, RoundInput more = {}) {
  RoundResult of_root;
  testing::RunOnRanks(ranks, [&](const Communicator& peers) {
    const RowShare share =
        ShareOfRank(points.rows(), static_cast<std::size_t>(peers.rank()), static_cast<std::size_t>(ranks));
    const kernel::DenseFeatures own(RowsOf(points, share), precision);
    RoundInput input = more;
    input.class_count = classes;
    input.labels = labels.subspan(share.first, share.count);
    absl::StatusOr<RoundResult> result = RunClusterRound(spec, {peers, own, share}, input);
    ASSERT_TRUE(result.ok()) << result.status();
    if (peers.is_root()) of_root = *std::move(result);
  });
  return of_root;
}

void ExpectSameBatch(const RoundResult& found, const RoundResult& expected, const std::string& where) {
  ASSERT_EQ(found.selection.picks.size(), expected.selection.picks.size()) << where;
  for (std::size_t i = 0; i < found.selection.picks.size(); ++i) {
    const select::Pick& a = found.selection.picks[i];
    const select::Pick& b = expected.selection.picks[i];
    ASSERT_EQ(a.row, b.row) << where << ", pick " << i;
    ASSERT_EQ(a.gain, b.gain) << where << ", pick " << i;
    ASSERT_EQ(a.leverage, b.leverage) << where << ", pick " << i;
    ASSERT_EQ(a.class_index, b.class_index) << where << ", pick " << i;
  }
  EXPECT_EQ(found.selection.certificate.value, expected.selection.certificate.value) << where;
  EXPECT_EQ(found.selection.certificate.upper_bound, expected.selection.certificate.upper_bound) << where;
}

void ExpectSameOnAnyRanks(const RoundSpec& spec, std::size_t labeled = 90, std::size_t classes = 3,
                          kernel::Precision precision = kernel::Precision::kFloat) {
  const Matrix<double> points = Clouds();
  const std::vector<ClassIndex> labels = Labels(labeled, classes);
  const kernel::DenseFeatures whole(points.Clone(), precision);
  const absl::StatusOr<RoundResult> expected =
      RoundRunner(spec, whole).Run({.class_count = classes, .labels = labels, .predictions = {}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const RoundResult found = RunOn(ranks, spec, points, labels, classes, precision);
    ExpectSameBatch(found, *expected, spec.strategy + " on " + std::to_string(ranks) + " ranks");
    if (::testing::Test::HasFatalFailure()) return;
  }
}

class AnyStrategy : public ::testing::TestWithParam<std::string> {};

TEST_P(AnyStrategy, SelectsTheSameBatchOnAnyNumberOfRanks) {
  ExpectSameOnAnyRanks(Spec(GetParam()));
}

TEST_P(AnyStrategy, SelectsTheSameBatchWithSharedLandmarks) {
  ExpectSameOnAnyRanks(WithLandmarks(Spec(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(ClusterRound, AnyStrategy,
                         ::testing::Values("random", "margin", "uncertainty", "least-confident", "entropy", "alevs",
                                           "dbalevs", "top-lev", "herding", "adaptive-herding", "hybrid"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(ClusterRound, IsTheSameForAPoolInMemory) {
  ExpectSameOnAnyRanks(WithLandmarks(Spec("dbalevs")), 90, 3, kernel::Precision::kDouble);
  ExpectSameOnAnyRanks(Spec("margin"), 90, 3, kernel::Precision::kDouble);
}

TEST(ClusterRound, ScalesLeverageByTheWholeClass) {
  for (const select::LeverageScale scale : {select::LeverageScale::kMean, select::LeverageScale::kMax}) {
    RoundSpec spec = WithLandmarks(Spec("dbalevs"));
    spec.leverage_scale = scale;
    ExpectSameOnAnyRanks(spec);
  }
}

TEST(ClusterRound, CoversThePoolWithoutLabelsOfTwoClasses) {
  ExpectSameOnAnyRanks(Spec("dbalevs"), 0, 2);
}

/// `of_first` labels of the first class, far apart, and `of_second` of the second.
std::vector<ClassIndex> FewLabels(std::size_t of_first, std::size_t of_second) {
  std::vector<ClassIndex> labels(kRows, kUnlabeled);
  for (std::size_t i = 0; i < of_first; ++i) labels[i * 611 + 5] = 0;
  for (std::size_t i = 0; i < of_second; ++i) labels[i * 977 + 2000] = 1;
  return labels;
}

struct FirstRound {
  std::string strategy;
  std::size_t of_first, of_second;  ///< labels
  std::size_t batch, queries;
};

/// The rounds before two classes are known: what one process selects is the reference.
TEST(ClusterRound, LooksForTheClassesAsOneProcessDoes) {
  const std::vector<FirstRound> rounds = {
      // Covers the pool, and picks at random from eight labels of one class on.
      {"adaptive-herding", 0, 0, 7, 8},
      {"adaptive-herding", 7, 0, 7, 8},
      {"adaptive-herding", 8, 0, 7, 8},
      {"dbalevs", 9, 0, 7, 9},
      // With one label of another class the default picks half of the batch at random, and single rows by turns.
      {"adaptive-herding", 6, 1, 7, 8},
      {"adaptive-herding", 7, 1, 7, 8},
      {"adaptive-herding", 7, 1, 7, 9},
      {"adaptive-herding", 7, 1, 1, 8},
      {"adaptive-herding", 7, 1, 1, 9},
      {"margin", 7, 1, 7, 8},
      {"adaptive-herding", 8, 2, 7, 8},
  };
  const Matrix<double> points = Clouds();
  const kernel::DenseFeatures whole(points.Clone());
  for (const FirstRound& round : rounds) {
    RoundSpec spec = Spec(round.strategy);
    spec.batch = round.batch;
    const std::vector<ClassIndex> labels = FewLabels(round.of_first, round.of_second);
    const auto expected =
        RoundRunner(spec, whole)
            .Run({.class_count = 2, .labels = labels, .predictions = {}, .queries_so_far = round.queries});
    ASSERT_TRUE(expected.ok()) << expected.status();
    const RoundResult found = RunOn(3, spec, points, labels, 2, kernel::Precision::kDouble,
                                    {.class_count = 2, .labels = {}, .queries_so_far = round.queries});
    ExpectSameBatch(found, *expected,
                    round.strategy + " after " + std::to_string(round.of_first) + "+" +
                        std::to_string(round.of_second) + " labels, batch " + std::to_string(round.batch) + ", " +
                        std::to_string(round.queries) + " queries");
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Classes that a model of the user's own gives: every strategy does with them what it does in one process.
TEST(ClusterRound, TakesGivenClassesAsOneProcessDoes) {
  const Matrix<double> points = Clouds();
  const kernel::DenseFeatures whole(points.Clone());
  const std::vector<ClassIndex> labels = Labels(90, 3), given = Labels(kRows, 3);
  for (const std::string strategy : {"margin", "uncertainty", "entropy", "least-confident", "most-confident", "dbalevs",
                                     "alevs", "adaptive-herding", "hybrid"}) {
    const auto expected =
        RoundRunner(Spec(strategy), whole).Run({.class_count = 3, .labels = labels, .predictions = std::span(given)});
    testing::RunOnRanks(3, [&](const Communicator& peers) {
      const RowShare share = ShareOfRank(kRows, static_cast<std::size_t>(peers.rank()), 3);
      const kernel::DenseFeatures own(RowsOf(points, share));
      const auto found = RunClusterRound(Spec(strategy), {peers, own, share},
                                         {.class_count = 3,
                                          .labels = std::span(labels).subspan(share.first, share.count),
                                          .predictions = std::span(given).subspan(share.first, share.count)});
      if (expected.ok()) {
        ASSERT_TRUE(found.ok()) << strategy << ": " << found.status();
        ExpectSameBatch(*found, *expected, strategy);
      } else {
        EXPECT_EQ(found.status().code(), expected.status().code()) << strategy;
        const std::string reason = "strategy '" + strategy + "' needs the confidence of a classifier";
        EXPECT_THAT(std::string(expected.status().message()), HasSubstr(reason));
        EXPECT_THAT(std::string(found.status().message()), HasSubstr(reason));
      }
    });
  }
}

/// docs/cluster.md, "What is sent": the rows of its table that are not about single strategies.
double BytesOfScoring(double labeled, double support, double landmarks, const std::vector<ClassReport>& classes,
                      double ranks) {
  const double gathered = 8 * kDims * (ranks - 1) / ranks, broadcast = 8 * kDims * (ranks - 1);
  const double pairs = static_cast<double>(classes.size() * (classes.size() - 1) / 2);
  double bytes = labeled * (gathered + broadcast) + 8 * support * pairs * (ranks - 1);
  for (const ClassReport& report : classes) {
    bytes += landmarks * (gathered + broadcast);
    bytes += 4 * landmarks * (landmarks + std::min(landmarks, 512.0)) * (ranks - 1);
    bytes += 4 * landmarks * (static_cast<double>(report.rank) + 2) * (ranks - 1);
  }
  return bytes;
}

TEST(ClusterRound, SendsWhatTheDocumentSays) {
  const Matrix<double> points = Clouds();
  const std::vector<ClassIndex> labels = Labels(90, 3);
  const RoundSpec spec = WithLandmarks(Spec("alevs"));
  for (const int ranks : {2, 4, 8}) {
    std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks));
    RoundResult result;
    testing::RunOnRanks(ranks, [&](const Communicator& peers) {
      const RowShare share =
          ShareOfRank(kRows, static_cast<std::size_t>(peers.rank()), static_cast<std::size_t>(ranks));
      const kernel::DenseFeatures own(RowsOf(points, share));
      auto found = RunClusterRound(
          spec, {peers, own, share},
          {.class_count = 3, .labels = std::span(labels).subspan(share.first, share.count), .predictions = {}});
      ASSERT_TRUE(found.ok()) << found.status();
      sent[static_cast<std::size_t>(peers.rank())] = peers.bytes_sent();
      if (peers.is_root()) result = *std::move(found);
    });
    double total = 0;
    for (const std::uint64_t bytes : sent) total += static_cast<double>(bytes);
    const double expected =
        BytesOfScoring(90, static_cast<double>(result.svm->support_vectors), 150, result.classes, ranks);
    EXPECT_NEAR(total / expected, 1, 0.1) << ranks << " ranks sent " << total << " bytes";
  }
}

TEST(ClusterRound, WeighsLabelsAndLeavesOutExcludedRowsAsOneProcessDoes) {
  const Matrix<double> points = Clouds();
  const std::vector<ClassIndex> labels = Labels(90, 3);
  std::vector<double> weights(kRows, 1.0);
  for (std::size_t row = 0; row < kRows; row += 3) weights[row] = 0.3;
  for (const char* const strategy : {"dbalevs", "margin", "adaptive-herding"}) {
    const RoundSpec spec = Spec(strategy);
    const kernel::DenseFeatures whole(points.Clone(), kernel::Precision::kFloat);
    RoundInput input{.class_count = 3, .labels = labels, .predictions = {}, .weights = weights};
    const auto first = RoundRunner(spec, whole).Run(input);
    ASSERT_TRUE(first.ok()) << first.status();
    // The best of them may not be picked.
    RowList barred;
    for (std::size_t i = 0; i < 10; ++i) barred.push_back(first->selection.picks[i].row);
    std::ranges::sort(barred);
    input.barred = barred;
    const auto expected = RoundRunner(spec, whole).Run(input);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_EQ(expected->selection.picks.size(), spec.batch);
    // Of thirteen ranks the first has no rows.
    ASSERT_EQ(ShareOfRank(kRows, 0, 13).count, 0u);
    for (const int ranks : {2, 3, 13}) {
      RoundResult found;
      testing::RunOnRanks(ranks, [&](const Communicator& peers) {
        const RowShare share =
            ShareOfRank(kRows, static_cast<std::size_t>(peers.rank()), static_cast<std::size_t>(ranks));
        const kernel::DenseFeatures own(RowsOf(points, share), kernel::Precision::kFloat);
        RoundInput part = input;
        part.labels = std::span(labels).subspan(share.first, share.count);
        part.weights = std::span(weights).subspan(share.first, share.count);
        auto result = RunClusterRound(spec, {peers, own, share}, part);
        ASSERT_TRUE(result.ok()) << result.status();
        if (peers.is_root()) found = *std::move(result);
      });
      ExpectSameBatch(found, *expected, spec.strategy + " on " + std::to_string(ranks) + " ranks");
    }
  }
}

TEST(ClusterRound, SaysWhichStrategiesRunOverProcesses) {
  testing::RunOnRanks(2, [](const Communicator& peers) {
    const RowShare share = ShareOfRank(kRows, static_cast<std::size_t>(peers.rank()), 2);
    const kernel::DenseFeatures own(RowsOf(Clouds(), share));
    const std::vector<ClassIndex> labels = Labels(90, 3);
    const auto result = RunClusterRound(
        Spec("quire"), {peers, own, share},
        {.class_count = 3, .labels = std::span(labels).subspan(share.first, share.count), .predictions = {}});
    EXPECT_TRUE(absl::IsInvalidArgument(result.status()));
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("'quire' does not run over several processes"));
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("dbalevs"));
  });
}

TEST(ClusterRound, AnErrorNamesTheRankThatHasIt) {
  testing::RunOnRanks(3, [](const Communicator& peers) {
    const RowShare share = ShareOfRank(kRows, static_cast<std::size_t>(peers.rank()), 3);
    Matrix<double> points = RowsOf(Clouds(), share);
    if (peers.rank() == 1) points(5, 0) = 1e200;
    const kernel::DenseFeatures own(std::move(points));
    const std::vector<ClassIndex> labels = Labels(90, 3);
    const auto result = RunClusterRound(
        Spec("alevs"), {peers, own, share},
        {.class_count = 3, .labels = std::span(labels).subspan(share.first, share.count), .predictions = {}});
    EXPECT_FALSE(result.ok());
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("rank 1 on thread"));
  });
}

}  // namespace
}  // namespace fulcrum::pipeline
