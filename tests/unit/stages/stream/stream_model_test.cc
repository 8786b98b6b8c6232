#include "stages/stream/stream_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "stages/classify/svm_model.h"
#include "tests/unit/stages/stream/stream_pool.h"

namespace fulcrum::stream {
namespace {

double Kernel(std::span<const double> a, std::span<const double> b, double sigma) {
  double distance = 0;
  for (std::size_t j = 0; j < a.size(); ++j) distance += (a[j] - b[j]) * (a[j] - b[j]);
  return std::exp(-distance / (sigma * sigma));
}

TEST(StreamModel, CoordinatesReproduceTheKernelIfEveryRowIsALandmark) {
  const TestPool pool(120, 5, 2, 4, 2);
  const auto model = pool.Model({.landmarks = 120, .rank = 120});
  RowView a, b;
  for (const std::size_t i : {0U, 7U, 119U}) {
    for (const std::size_t j : {3U, 7U, 80U}) {
      model->Look(pool.Row(i), a);
      model->Look(pool.Row(j), b);
      const double product = std::inner_product(a.coordinates.begin(), a.coordinates.end(), b.coordinates.begin(), 0.0);
      EXPECT_NEAR(product, Kernel(pool.Row(i), pool.Row(j), 2), 1e-4) << i << ", " << j;
    }
  }
}

TEST(StreamModel, CoordinatesAreUncorrelatedOverTheReferenceRows) {
  const TestPool pool(600, 4, 2, 10, 2);
  const auto model = pool.Model({.landmarks = 60, .rank = 20});
  const ConstMatrixView rows = model->reference();
  ASSERT_EQ(rows.rows(), 600U);
  for (std::size_t a = 0; a < rows.cols(); ++a) {
    for (std::size_t b = 0; b < rows.cols(); ++b) {
      double sum = 0;
      for (std::size_t i = 0; i < rows.rows(); ++i) sum += rows(i, a) * rows(i, b);
      EXPECT_NEAR(sum / 600, a == b ? model->moments()[a] : 0, 1e-9);
    }
  }
}

TEST(StreamModel, UncertaintyIsThatOfTheClassifiersProbabilities) {
  const TestPool pool(400, 5, 2, 10, 2);
  const auto model = pool.Model();
  const Matrix<double> decisions = classify::DecisionValues(pool.svm, *pool.features, *pool.features);
  const Matrix<double> probabilities = classify::Probabilities(pool.svm, decisions.view()).value();
  RowView view;
  for (std::size_t i = 0; i < 400; ++i) {
    model->Look(pool.Row(i), view);
    // Coupling clamps probabilities to 1e-7.
    EXPECT_NEAR(view.uncertainty, 1 - std::abs(2 * probabilities(i, 0) - 1), 1e-6) << i;
  }
}

TEST(StreamModel, ManySupportVectorsAreReplacedByLandmarksThatDecideAlike) {
  const TestPool pool(900, 5, 3, 2, 3);
  ASSERT_GT(pool.svm.support_rows.size(), 100U);
  const auto model = pool.Model({.landmarks = 128, .rank = 32});
  EXPECT_LT(model->decision_error(), 0.1);
  EXPECT_GT(model->decision_error(), 0);
  const Matrix<double> decisions = classify::DecisionValues(pool.svm, *pool.features, *pool.features);
  RowView view;
  std::size_t same = 0;
  for (std::size_t i = 0; i < 900; ++i) {
    model->Look(pool.Row(i), view);
    same += classify::VoteClass(pool.svm, decisions.row(i)) == classify::VoteClass(pool.svm, view.decisions) ? 1 : 0;
  }
  EXPECT_GE(same, 880U);
}

TEST(StreamModel, NoveltyIsHighOnlyFarFromTheLandmarks) {
  const TestPool pool(800, 4, 2, 10, 3);
  const auto model = pool.Model();
  RowView view;
  double sum = 0;
  for (std::size_t i = 0; i < 800; ++i) {
    model->Look(pool.Row(i), view);
    sum += view.novelty;
  }
  EXPECT_LT(sum / 800, 0.02);
  model->Look(std::vector<double>{40, -40, 40, -40}, view);
  EXPECT_NEAR(view.novelty, 1, 1e-9);
}

TEST(StreamModel, WithoutAClassifierEveryRowIsUncertain) {
  const TestPool pool(100, 3, 2, 5, 1);
  const std::vector<ClassIndex> none(100, kUnlabeled);
  const auto model = StreamModel::Make({.features = *pool.features, .labels = none}, {}).value();
  RowView view;
  model->Look(pool.Row(3), view);
  EXPECT_EQ(view.uncertainty, 1);
  EXPECT_EQ(model->labeled().rows(), 0U);
}

TEST(StreamModel, RowsThatAreNotKnownYetDoNotMatter) {
  TestPool pool(300, 4, 2, 10, 2);
  RowList known(150);
  std::iota(known.begin(), known.end(), RowIndex{0});
  std::vector<ClassIndex> labels = pool.labels;
  std::fill(labels.begin() + 150, labels.end(), kUnlabeled);
  StreamPool view = {.features = *pool.features, .labels = labels, .kernel = pool.svm.kernel, .rows = known};
  const std::uint64_t before = StreamModel::Make(view, {}).value()->fingerprint();
  Matrix<double> values = Matrix<double>::CopyOf(pool.features->values());
  for (std::size_t i = 150; i < 300; ++i) values(i, 0) += 100;
  const kernel::DenseFeatures changed(std::move(values));
  const StreamPool other = {.features = changed, .labels = labels, .kernel = pool.svm.kernel, .rows = known};
  EXPECT_EQ(StreamModel::Make(other, {}).value()->fingerprint(), before);
}

TEST(StreamModel, TheFingerprintTellsModelsApart) {
  const TestPool pool(200, 4, 2, 10, 2);
  EXPECT_EQ(pool.Model()->fingerprint(), pool.Model()->fingerprint());
  const TestPool more(200, 4, 2, 5, 2);
  EXPECT_NE(pool.Model()->fingerprint(), more.Model()->fingerprint());
}

TEST(StreamModel, APoolOfOneRowIsRefused) {
  Matrix<double> values = Matrix<double>::Zero(1, 2);
  const kernel::DenseFeatures features(std::move(values));
  const std::vector<ClassIndex> labels = {kUnlabeled};
  EXPECT_EQ(StreamModel::Make({.features = features, .labels = labels}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(StreamModel, WhatWasSavedIsTheSameAndDamageIsNoticed) {
  const TestPool pool(80, 3, 3, 4, 1.5);
  const auto model = pool.Model({.landmarks = 24, .rank = 6, .reference = 50});
  const std::string bytes = model->Serialize();
  const auto parsed = StreamModel::Parse(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)->fingerprint(), model->fingerprint());
  EXPECT_EQ((*parsed)->Serialize(), bytes);
  RowView a, b;
  for (std::size_t i = 0; i < 80; ++i) {
    model->Look(pool.Row(i), a);
    (*parsed)->Look(pool.Row(i), b);
    EXPECT_EQ(a.coordinates, b.coordinates);
    EXPECT_EQ(a.novelty, b.novelty);
    EXPECT_EQ(a.uncertainty, b.uncertainty);
  }
  for (std::size_t place = 0; place < bytes.size(); place += 97) {
    std::string damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x10);
    EXPECT_FALSE(StreamModel::Parse(damaged).ok()) << place;
    EXPECT_FALSE(StreamModel::Parse(bytes.substr(0, place)).ok()) << place;
  }
}

}  // namespace
}  // namespace fulcrum::stream
