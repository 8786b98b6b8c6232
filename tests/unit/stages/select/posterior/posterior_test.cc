#include "stages/select/posterior/posterior.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/matrices.h"
#include "tests/unit/stages/select/posterior/dense_inverse.h"

namespace fulcrum::select {
namespace {

constexpr double kNoise = 0.1;
constexpr std::size_t kRows = 40;

class PosteriorTest : public ::testing::Test {
 protected:
  PosteriorTest() : features_(testing::RandomMatrix(kRows, 3, 5)), labeled_{7, 0, 22, 31, 13} {
    for (RowIndex row = 0; row < kRows; ++row) candidates_.push_back(kRows - 1 - row);
  }

  PosteriorRequest Request() const {
    return {.features = &features_,
            .kernel = kernel_,
            .labeled = labeled_,
            .candidates = candidates_,
            .noise = kNoise,
            .targets = {},
            .updates = 0};
  }

  /// k(x,x) - k' (K + noise I)^-1 k of every candidate, given these rows.
  std::vector<double> ReferenceVariances(const RowList& given) const {
    const Matrix<double> all = testing::NaiveKernel(kernel_, features_.values(), features_.values());
    Matrix<double> among(given.size(), given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      for (std::size_t j = 0; j < given.size(); ++j) among(i, j) = all(given[i], given[j]) + (i == j ? kNoise : 0);
    }
    const Matrix<double> inverse = given.empty() ? Matrix<double>() : DenseInverse(among.view());
    std::vector<double> variances;
    for (const RowIndex row : candidates_) {
      double variance = all(row, row);
      for (std::size_t i = 0; i < given.size(); ++i) {
        for (std::size_t j = 0; j < given.size(); ++j)
          variance -= all(row, given[i]) * inverse(i, j) * all(row, given[j]);
      }
      variances.push_back(variance);
    }
    return variances;
  }

  kernel::KernelFunction kernel_ = {.sigma = 1.3};
  kernel::DenseFeatures features_;
  RowList labeled_;
  RowList candidates_;
};

TEST_F(PosteriorTest, VariancesAreThoseOfTheFormula) {
  const auto posterior = Posterior::Compute(Request());
  ASSERT_TRUE(posterior.ok()) << posterior.status();
  EXPECT_THAT(posterior->variances(), ::testing::Pointwise(::testing::DoubleNear(1e-12), ReferenceVariances(labeled_)));
}

TEST_F(PosteriorTest, RankOneUpdatesEqualComputingAnew) {
  PosteriorRequest request = Request();
  request.updates = 3;
  auto posterior = Posterior::Compute(request);
  ASSERT_TRUE(posterior.ok()) << posterior.status();
  for (const std::size_t candidate : {3, 20, 38}) {
    posterior->Label(candidate);
    labeled_.push_back(candidates_[candidate]);
    EXPECT_THAT(posterior->variances(),
                ::testing::Pointwise(::testing::DoubleNear(1e-12), ReferenceVariances(labeled_)));
  }
}

TEST_F(PosteriorTest, OverOtherCandidatesItIsTheSameProcess) {
  const Matrix<double> targets = testing::RandomMatrix(2, labeled_.size(), 8);
  PosteriorRequest request = Request();
  request.targets = targets.view();
  const auto everyone = Posterior::Compute(request);
  ASSERT_TRUE(everyone.ok()) << everyone.status();
  const RowList some = {candidates_[3], candidates_[20], candidates_[38]};
  Posterior of_some = everyone->Over(some, 1);
  for (std::size_t i = 0; const std::size_t position : {3, 20, 38}) {
    EXPECT_NEAR(of_some.variances()[i], everyone->variances()[position], 1e-12);
    EXPECT_NEAR(of_some.means()(i, 1), everyone->means()(position, 1), 1e-12);
    ++i;
  }
  of_some.Label(1);
  labeled_.push_back(some[1]);
  EXPECT_NEAR(of_some.variances()[2], ReferenceVariances(labeled_)[38], 1e-12);
}

TEST_F(PosteriorTest, WithoutLabelsItIsThePrior) {
  PosteriorRequest request = Request();
  request.labeled = {};
  const auto posterior = Posterior::Compute(request);
  ASSERT_TRUE(posterior.ok()) << posterior.status();
  EXPECT_THAT(posterior->variances(), ::testing::Each(1.0));
}

TEST_F(PosteriorTest, RejectsAKernelThatIsNotPositive) {
  PosteriorRequest request = Request();
  request.kernel = {.type = kernel::KernelType::kPoly, .offset = -50, .degree = 1};
  EXPECT_EQ(Posterior::Compute(request).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fulcrum::select
