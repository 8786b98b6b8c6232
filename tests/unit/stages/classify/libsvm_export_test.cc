#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stages/classify/model_file.h"
#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/stages/classify/labeled_clusters.h"
#include "tests/unit/stages/classify/libsvm_oracle.h"

namespace fulcrum::classify {
namespace {

using ::testing::HasSubstr;

struct ExportSetting {
  std::string name;
  kernel::KernelFunction kernel;
  std::size_t classes;
};

class LibsvmExportTest : public ::testing::TestWithParam<ExportSetting> {};

TEST_P(LibsvmExportTest, LibsvmLoadsItAndDecidesTheSame) {
  const ExportSetting& setting = GetParam();
  const LabeledClusters clusters = MakeClusters(150, 5, setting.classes, 71);
  SvmTrainer trainer({.kernel = setting.kernel}, *clusters.features);
  const SvmModel model = *trainer.Train(clusters.LabelsOfFirst(110), setting.classes);
  const testing::TemporaryDirectory directory;
  ASSERT_TRUE(ExportLibsvmModel(model, *clusters.features, directory.File("model")).ok());
  const LibsvmOracle loaded = LibsvmOracle::Load(directory.File("model"));
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.support_count(), model.support_rows.size());

  const Matrix<double> decisions = DecisionValues(model, *clusters.features, *clusters.features);
  const std::vector<ClassIndex> classes = VoteClasses(model, decisions.view());
  for (std::size_t row = 0; row < 150; ++row) {
    std::vector<double> x(clusters.values().row(row).begin(), clusters.values().row(row).end());
    const double norm = std::sqrt(clusters.features->squared_norms()[row]);
    if (setting.kernel.type == kernel::KernelType::kCosine) {
      for (double& value : x) value /= norm;
    }
    const std::vector<double> theirs = loaded.Decisions(x);
    for (std::size_t p = 0; p < theirs.size(); ++p) EXPECT_NEAR(decisions(row, p), theirs[p], 1e-9);
    EXPECT_EQ(classes[row], loaded.Predict(x));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, LibsvmExportTest,
    ::testing::Values(ExportSetting{"rbf", {.sigma = 1.7}, 2},
                      ExportSetting{"linear", {.type = kernel::KernelType::kLinear}, 2},
                      ExportSetting{"poly", {.type = kernel::KernelType::kPoly, .offset = 0.25, .degree = 4}, 2},
                      ExportSetting{"cosine", {.type = kernel::KernelType::kCosine}, 2},
                      ExportSetting{"rbf_four_classes", {}, 4}),
    [](const auto& setting) { return setting.param.name; });

TEST(LibsvmExportDetailsTest, ProbabilitiesAndLabelsGoAlong) {
  const LabeledClusters clusters = MakeClusters(150, 5, 2, 72);
  SvmTrainer trainer({}, *clusters.features);
  SvmModel model = *trainer.Train(clusters.LabelsOfFirst(110), 2);
  ASSERT_TRUE(trainer.FitProbabilities(model).ok());
  const testing::TemporaryDirectory directory;
  const std::vector<int> labels = {-1, 1};
  ASSERT_TRUE(ExportLibsvmModel(model, *clusters.features, directory.File("model"), labels).ok());
  const LibsvmOracle loaded = LibsvmOracle::Load(directory.File("model"));
  const Matrix<double> decisions = DecisionValues(model, *clusters.features, *clusters.features);
  const Matrix<double> ours = *Probabilities(model, decisions.view());
  for (std::size_t row = 0; row < 150; ++row) {
    const auto x = clusters.values().row(row);
    EXPECT_EQ(loaded.Predict(x), decisions(row, 0) > 0 ? -1 : 1);
    // LIBSVM couples two classes too, and stops at 0.0025.
    EXPECT_NEAR(loaded.Probabilities(x)[0], ours(row, 0), 0.01);
  }
}

TEST(LibsvmExportDetailsTest, ANormalisedKernelIsRefused) {
  const LabeledClusters clusters = MakeClusters(40, 5, 2, 73);
  SvmTrainer trainer({.kernel = {.type = kernel::KernelType::kPoly, .normalize = true}}, *clusters.features);
  const SvmModel model = *trainer.Train(clusters.truth, 2);
  const auto text = FormatLibsvmModel(model, *clusters.features);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("normalised"));
}

}  // namespace
}  // namespace fulcrum::classify
