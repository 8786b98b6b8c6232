#include "stages/kernel/kernel_function.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace fulcrum::kernel {
namespace {

TEST(KernelFunction, RejectsAWidthThatIsNotPositive) {
  for (double sigma : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto status = ValidateKernel({.type = KernelType::kRbf, .sigma = sigma});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << sigma;
    EXPECT_NE(status.message().find("sigma"), std::string::npos) << status;
  }
  EXPECT_TRUE(ValidateKernel({.type = KernelType::kLinear, .sigma = -1}).ok()) << "linear has no width";
}

TEST(KernelFunction, RejectsPolynomialsThatAreNoKernels) {
  EXPECT_FALSE(ValidateKernel({.type = KernelType::kPoly, .degree = 0}).ok());
  EXPECT_FALSE(ValidateKernel({.type = KernelType::kPoly, .offset = -1}).ok());
}

TEST(KernelFunction, NamesParseBack) {
  for (KernelType type : {KernelType::kRbf, KernelType::kLinear, KernelType::kPoly, KernelType::kCosine}) {
    EXPECT_EQ(*ParseKernelType(KernelTypeName(type)), type);
  }
  EXPECT_NE(ParseKernelType("gauss").status().message().find("rbf"), std::string::npos);
}

TEST(KernelFunction, DescribesItsParameters) {
  EXPECT_EQ(DescribeKernel({.type = KernelType::kRbf, .sigma = 2}), "rbf(sigma=2)");
  EXPECT_EQ(DescribeKernel({.type = KernelType::kPoly, .offset = 1, .degree = 4, .normalize = true}),
            "poly(c=1, degree=4, normalized)");
}

TEST(KernelFunction, AWidthWithoutAFiniteInverseTellsEqualRowsFromOthers) {
  for (const double sigma : {1e-320, 1e-155, 1e-25}) {
    const std::vector<double> norms = {1, 4};
    Matrix<double> values(2, 2);
    values(0, 0) = 1, values(0, 1) = values(1, 0) = 1.5, values(1, 1) = 4;
    ApplyKernelToDots({.type = KernelType::kRbf, .sigma = sigma}, norms, norms, values.view());
    const std::vector<float> float_norms = {1, 4};
    Matrix<float> floats(2, 2);
    floats(0, 0) = 1, floats(0, 1) = floats(1, 0) = 1.5F, floats(1, 1) = 4;
    ApplyKernelToDots({.type = KernelType::kRbf, .sigma = sigma}, float_norms, float_norms, floats.view());
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 2; ++j) {
        EXPECT_NEAR(values(i, j), i == j ? 1 : 0, 1e-30) << sigma;
        EXPECT_NEAR(floats(i, j), i == j ? 1 : 0, 1e-30) << sigma;
      }
    }
  }
}

TEST(KernelFunction, ValuesThatCannotBeComputedAreRefusedWithTheirRow) {
  const std::vector<double> norms = {1, 2, 1e10, std::numeric_limits<double>::infinity()};
  const KernelFunction cubic{.type = KernelType::kPoly, .offset = 1, .degree = 3};
  EXPECT_TRUE(CheckKernelValues(cubic, norms, std::vector<RowIndex>{0, 1, 2}).ok());
  const absl::Status inf = CheckKernelValues(cubic, norms, std::vector<RowIndex>{0, 3});
  EXPECT_EQ(inf.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(inf.message().find("row 3 of the pool"), std::string::npos) << inf;
  EXPECT_FALSE(CheckKernelValues(cubic, norms, std::vector<RowIndex>{2}, 1e18).ok());
  EXPECT_FALSE(CheckKernelValues({.type = KernelType::kRbf, .sigma = 1}, norms, std::vector<RowIndex>{3}).ok());
  const KernelFunction steep{.type = KernelType::kPoly, .offset = 1, .degree = 1000, .normalize = true};
  EXPECT_FALSE(CheckKernelValues(steep, norms, std::vector<RowIndex>{1}).ok());
}

}  // namespace
}  // namespace fulcrum::kernel
