#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/classify/labeled_clusters.h"
#include "tests/unit/stages/classify/libsvm_oracle.h"

namespace fulcrum::classify {
namespace {

using ::testing::ElementsAre;

/// Features of which only inner products are known; `others` are those of the rows on the right.
class DotsOnly final : public kernel::InnerProductFeatures {
 public:
  DotsOnly(ConstMatrixView values, ConstMatrixView others) : values_(values), others_(others) {
    for (std::size_t row = 0; row < values.rows(); ++row)
      squared_norms_.push_back(Dot(values.row(row), values.row(row)));
  }
  std::size_t dims() const override { return values_.cols(); }
  void WriteInnerProducts(std::span<const RowIndex> a, std::span<const RowIndex> b,
                          MutableMatrixView out) const override {
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; j < b.size(); ++j) out(i, j) = Dot(values_.row(a[i]), others_.row(b[j]));
    }
  }

 private:
  static double Dot(std::span<const double> x, std::span<const double> z) {
    return std::inner_product(x.begin(), x.end(), z.begin(), 0.0);
  }
  ConstMatrixView values_, others_;
};

/// Rows that ask for float32 kernel values, as a pool on disk does.
class FloatRows final : public kernel::Features {
 public:
  explicit FloatRows(ConstMatrixView values) : dense_(Matrix<double>::CopyOf(values)) {
    squared_norms_.assign(dense_.squared_norms().begin(), dense_.squared_norms().end());
  }
  std::size_t dims() const override { return dense_.dims(); }
  kernel::PackedRows Pack(std::span<const RowIndex> rows) const override {
    packed += rows.size();
    return dense_.Pack(rows);
  }
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override { dense_.CopyRows(rows, out); }
  kernel::FeatureKind kind() const override { return kernel::FeatureKind::kDense; }
  kernel::Precision precision() const override { return kernel::Precision::kFloat; }

  mutable std::atomic<std::size_t> packed = 0;  ///< rows that were read in double precision

 private:
  kernel::DenseFeatures dense_;
};

/// No training behind it: as many support vectors and pairs as a test asks for.
SvmModel RandomModel(const kernel::KernelFunction& kernel, std::size_t support, std::size_t classes) {
  SvmModel model;
  model.class_count = classes;
  model.kernel = kernel;
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j) {
      SvmPair pair;
      pair.first = static_cast<ClassIndex>(i);
      pair.second = static_cast<ClassIndex>(j);
      pair.rho = 0.1 * static_cast<double>(i) - 0.3;
      model.pairs.push_back(pair);
    }
  }
  for (std::size_t s = 0; s < support; ++s) model.support_rows.push_back(static_cast<RowIndex>(2 * s));
  model.coefficients = testing::RandomMatrix(support, model.pairs.size(), 77);
  return model;
}

class SvmPredictorKernelTest : public ::testing::TestWithParam<kernel::KernelFunction> {};

TEST_P(SvmPredictorKernelTest, DecisionsEqualTheSumsOneByOne) {
  const LabeledClusters pool = MakeClusters(300, 7, 3, 41), test_set = MakeClusters(530, 7, 3, 42);
  for (std::size_t classes : {2u, 3u}) {
    const SvmModel model = RandomModel(GetParam(), 120, classes);
    const Matrix<double> fast = DecisionValues(model, *pool.features, *test_set.features);
    const Matrix<double> naive = NaiveDecisions(model, pool.values(), test_set.values());
    EXPECT_LT(LargestDifference(fast.view(), naive.view()), 1e-10);
    const DotsOnly pool_dots(pool.values(), pool.values()), test_dots(test_set.values(), pool.values());
    const Matrix<double> by_dots = DecisionValues(model, pool_dots, test_dots);
    EXPECT_LT(LargestDifference(by_dots.view(), naive.view()), 1e-10);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, SvmPredictorKernelTest,
    ::testing::Values(kernel::KernelFunction{.sigma = 1.5}, kernel::KernelFunction{.type = kernel::KernelType::kLinear},
                      kernel::KernelFunction{.type = kernel::KernelType::kPoly, .degree = 2},
                      kernel::KernelFunction{.type = kernel::KernelType::kPoly, .degree = 2, .normalize = true},
                      kernel::KernelFunction{.type = kernel::KernelType::kCosine}),
    [](const auto& setting) {
      return std::string(kernel::KernelTypeName(setting.param.type)) + std::to_string(setting.index);
    });

TEST(SvmPredictorTest, MoreSupportVectorsThanAPanelAndScatteredRows) {
  const LabeledClusters pool = MakeClusters(2300, 3, 2, 43);
  const SvmModel model = RandomModel({}, 1100, 2);
  const RowList rows = {5, 3, 2000, 3, 77};
  Matrix<double> chosen(rows.size(), 3), decisions(rows.size(), 1);
  for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(pool.values().row(rows[i]).data(), 3, chosen.row(i).data());
  DecisionValues(model, *pool.features, *pool.features, rows, decisions.view());
  EXPECT_LT(LargestDifference(decisions.view(), NaiveDecisions(model, pool.values(), chosen.view()).view()), 1e-10);
}

TEST(SvmPredictorTest, AnyNumberOfThreadsGivesTheSameBits) {
  const LabeledClusters pool = MakeClusters(1500, 9, 3, 44);
  const SvmModel model = RandomModel({}, 700, 3);
  const auto predict = [&](std::size_t threads) {
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return DecisionValues(model, *pool.features, *pool.features);
  };
  EXPECT_EQ(LargestDifference(predict(1).view(), predict(4).view()), 0);
}

TEST(SvmPredictorTest, NoRowsAndNoSupportVectorsAreFine) {
  const LabeledClusters pool = MakeClusters(10, 3, 2, 45);
  SvmModel model = RandomModel({}, 0, 2);
  const Matrix<double> decisions = DecisionValues(model, *pool.features, *pool.features);
  EXPECT_EQ(decisions(9, 0), -model.pairs[0].rho);
  Matrix<double> none(0, 1);
  DecisionValues(model, *pool.features, *pool.features, {}, none.view());
}

TEST(SvmPredictorTest, VotesDecideAndTiesGoToTheSmallerClass) {
  const SvmModel model = RandomModel({}, 1, 3);  // pairs 01, 02, 12
  EXPECT_EQ(VoteClass(model, std::vector<double>{1, 1, 1}), 0);
  EXPECT_EQ(VoteClass(model, std::vector<double>{-1, 1, 1}), 1);
  EXPECT_EQ(VoteClass(model, std::vector<double>{1, -1, -1}), 2);
  EXPECT_EQ(VoteClass(model, std::vector<double>{1, -1, 1}), 0);
  EXPECT_EQ(VoteClass(model, std::vector<double>{0, 0, 0}), 2) << "a zero counts for the second of a pair";
}

TEST(SvmPredictorTest, TheMarginIsTheSmallestAdvantageOfTheWinner) {
  const SvmModel three = RandomModel({}, 1, 3);  // pairs 01, 02, 12
  Matrix<double> decisions(3, 3);
  const double values[3][3] = {{2, 0.5, -7}, {-1, 4, 3}, {1, -0.25, 2}};
  for (std::size_t i = 0; i < 3; ++i) std::copy_n(values[i], 3, decisions.row(i).data());
  std::vector<ClassIndex> classes = VoteClasses(three, decisions.view());
  ASSERT_THAT(classes, ElementsAre(0, 1, 0)) << "the last row is a cycle, which the smallest class wins";
  std::vector<double> margins(3);
  VoteMargins(three, decisions.view(), classes, margins);
  EXPECT_THAT(margins, ElementsAre(0.5, 1, -0.25));

  const SvmModel two = RandomModel({}, 1, 2);
  const std::vector<double> single = {-1.5, 0.25};
  const ConstMatrixView column(single.data(), 2, 1);
  classes = VoteClasses(two, column);
  margins.resize(2);
  VoteMargins(two, column, classes, margins);
  EXPECT_THAT(margins, ElementsAre(1.5, 0.25));
}

TEST(SvmPredictorTest, ProbabilitiesNeedSigmoids) {
  const SvmModel model = RandomModel({}, 1, 2);
  const Matrix<double> decisions = Matrix<double>::Zero(1, 1);
  EXPECT_EQ(Probabilities(model, decisions.view()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SvmPredictorTest, ProbabilitiesSumToOneAndLeaveOutClassesWithoutLabels) {
  const LabeledClusters pool = MakeClusters(240, 5, 4, 46);
  std::vector<ClassIndex> labels = pool.LabelsOfFirst(200);
  for (ClassIndex& label : labels) label = label == 2 ? kUnlabeled : label;
  SvmTrainer trainer({}, *pool.features);
  SvmModel model = *trainer.Train(labels, 4);
  ASSERT_TRUE(trainer.FitProbabilities(model).ok());
  const Matrix<double> decisions = DecisionValues(model, *pool.features, *pool.features);
  const Matrix<double> probabilities = *Probabilities(model, decisions.view());
  for (std::size_t row = 0; row < 240; ++row) {
    const auto p = probabilities.row(row);
    EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-12);
    EXPECT_EQ(p[2], 0);
    for (double value : p) EXPECT_GE(value, 0);
  }
}

TEST(SvmPredictorTest, TwoClassProbabilitiesAreTheSigmoidItself) {
  SvmModel model = RandomModel({}, 1, 2);
  model.pairs[0].has_platt = true;
  model.pairs[0].platt = {-2, 0.5};
  Matrix<double> decisions(2, 1);
  decisions(0, 0) = 0.25;
  decisions(1, 0) = -3;
  const Matrix<double> probabilities = *Probabilities(model, decisions.view());
  EXPECT_DOUBLE_EQ(probabilities(0, 0), 0.5);
  EXPECT_NEAR(probabilities(1, 0), 1 / (1 + std::exp(6.5)), 1e-15);
  EXPECT_DOUBLE_EQ(probabilities(1, 0) + probabilities(1, 1), 1);
}

TEST(DecisionValues, OfAPoolOnDiskAreThoseOfFloatKernelValues) {
  const Matrix<double> points = testing::RandomMatrix(1700, 6, 12), others = testing::RandomMatrix(40, 6, 13);
  const kernel::DenseFeatures dense(points.Clone()), test_set(others.Clone());
  const FloatRows on_disk(points.view());
  for (const std::size_t classes : {2, 4}) {
    const SvmModel model = RandomModel({.type = kernel::KernelType::kRbf, .sigma = 2}, 700, classes);
    const Matrix<double> expected = DecisionValues(model, dense, dense);
    on_disk.packed = 0;
    const Matrix<double> pool = DecisionValues(model, on_disk, on_disk);
    EXPECT_EQ(on_disk.packed, 0u) << "no row is read in double precision";
    const Matrix<double> expected_test = DecisionValues(model, dense, test_set),
                         test = DecisionValues(model, on_disk, test_set);
    for (std::size_t p = 0; p < model.pairs.size(); ++p) {
      for (std::size_t i = 0; i < 1700; ++i) ASSERT_NEAR(pool(i, p), expected(i, p), 1e-4);
      for (std::size_t i = 0; i < 40; ++i) ASSERT_NEAR(test(i, p), expected_test(i, p), 1e-12) << "rows in memory";
    }
  }
}

}  // namespace
}  // namespace fulcrum::classify
