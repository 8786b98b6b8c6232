#include "stages/kernel/kernel_function.h"

#include <limits>

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

}  // namespace
}  // namespace fulcrum::kernel
