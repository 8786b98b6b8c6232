#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "stages/classify/svm_model.h"

namespace fulcrum::classify {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(const SvmParameters& parameters, std::size_t classes) {
  return std::string(ValidateSvmParameters(parameters, classes).message());
}

TEST(SvmParametersTest, DefaultsAreValid) {
  EXPECT_TRUE(ValidateSvmParameters(SvmParameters{}, 2).ok());
}

TEST(SvmParametersTest, RejectsEachBadSettingByName) {
  EXPECT_THAT(MessageOf({.c = 0}, 2), HasSubstr("C is 0"));
  EXPECT_THAT(MessageOf({.c = std::numeric_limits<double>::infinity()}, 2), HasSubstr("C is inf"));
  EXPECT_THAT(MessageOf({.tolerance = -1}, 2), HasSubstr("tolerance is -1"));
  EXPECT_THAT(MessageOf({.class_weights = {1, 0}}, 2), HasSubstr("weight of class 1 is 0"));
  EXPECT_THAT(MessageOf({.class_weights = {1, 1, 1}}, 2), HasSubstr("3 class weights but there are 2 classes"));
  EXPECT_THAT(MessageOf({.kernel = {.sigma = 0}}, 2), HasSubstr("sigma"));
}

}  // namespace
}  // namespace fulcrum::classify
