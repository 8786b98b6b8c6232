#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "stages/select/posterior/posterior.h"
#include "stages/select/strategies/strategy_parts.h"
#include "tests/unit/stages/select/posterior/gaussian_process_reference.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

constexpr double kDoubtNoise = 0.1;

class DoubtReductionTest : public ::testing::Test {
 protected:
  DoubtReductionTest() : pool_({.rows = 50, .classes = 3, .seed = 3}), candidates_(pool_.candidates(1)) {}

  Posterior Compute(const RowList& labeled, const RowList& rows, std::size_t updates) {
    const auto counts = LabelCounts(candidates_.labels, candidates_.class_count);
    targets_ = BalancedTargets(candidates_.labels, labeled, counts);
    return *Posterior::Compute({.features = candidates_.features,
                                .kernel = candidates_.classifier_kernel,
                                .labeled = labeled,
                                .candidates = rows,
                                .noise = kDoubtNoise,
                                .targets = targets_.view(),
                                .updates = updates});
  }

  static std::vector<std::size_t> EveryThird(std::size_t count) {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < count; i += 3) positions.push_back(i);
    return positions;
  }
  static std::vector<std::size_t> All(std::size_t count) {
    std::vector<std::size_t> positions(count);
    std::iota(positions.begin(), positions.end(), std::size_t{0});
    return positions;
  }

  SmallPool pool_;
  Candidates candidates_;
  Matrix<double> targets_;
};

TEST_F(DoubtReductionTest, IsTheFormulaOfItsHeader) {
  const RowList rows = UnlabeledRows(candidates_.labels), labeled = LabeledRows(candidates_.labels);
  const Posterior posterior = Compute(labeled, rows, 1);
  const std::vector<std::size_t> references = EveryThird(rows.size());
  const std::vector<double> scores = DoubtReduction(posterior, All(rows.size()), references).Scores();
  const GaussianProcessReference process(pool_, candidates_, labeled, kDoubtNoise);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double expected = 0;
    for (const std::size_t r : references) {
      const double doubt = process.Doubt(candidates_, rows[r]);
      expected += doubt * std::pow(process.Covariance(rows[i], rows[r]), 2);
    }
    expected /= process.Covariance(rows[i], rows[i]) + kDoubtNoise;
    EXPECT_NEAR(scores[i], expected, 1e-9);
  }
}

TEST_F(DoubtReductionTest, WithoutLabelsItIsExperimentalDesign) {
  RowList rows(candidates_.labels.size());
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  const RowList nobody;
  const Posterior posterior = Compute(nobody, rows, 1);
  const std::vector<double> scores = DoubtReduction(posterior, All(rows.size()), All(rows.size())).Scores();
  const GaussianProcessReference process(pool_, candidates_, nobody, kDoubtNoise);
  for (const RowIndex row : rows) {
    double norm = 0;
    for (const RowIndex other : rows) norm += std::pow(process.Covariance(row, other), 2);
    EXPECT_NEAR(scores[row], norm / (1 + kDoubtNoise), 1e-9);
  }
}

TEST_F(DoubtReductionTest, FollowsWhatALabelDoesToTheVariances) {
  const RowList rows = UnlabeledRows(candidates_.labels);
  RowList labeled = LabeledRows(candidates_.labels);
  Posterior posterior = Compute(labeled, rows, 2);
  DoubtReduction reduction(posterior, All(rows.size()), EveryThird(rows.size()));
  for (const std::size_t pick : {4, 17}) {
    posterior.Label(pick);
    reduction.Follow();
    labeled.push_back(rows[pick]);
  }
  const std::vector<double> followed = reduction.Scores();
  const std::vector<double> afresh = DoubtReduction(posterior, All(rows.size()), EveryThird(rows.size())).Scores();
  const GaussianProcessReference process(pool_, candidates_, labeled, kDoubtNoise);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(followed[i], afresh[i], 1e-12);
    EXPECT_NEAR(posterior.variances()[i], process.Covariance(rows[i], rows[i]), 1e-9);
  }
}

}  // namespace
}  // namespace fulcrum::select
