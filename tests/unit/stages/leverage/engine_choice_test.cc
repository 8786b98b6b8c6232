#include "gtest/gtest.h"
#include "stages/leverage/leverage_engine.h"

namespace fulcrum::leverage {
namespace {

constexpr std::size_t kGibibyte = std::size_t{1} << 30;

EngineChoice Auto(std::size_t rows, std::size_t memory) {
  return *ChooseEngine("auto", {.rows = rows, .dims = 64, .memory_bytes = memory, .threads = 2});
}

TEST(ChooseEngine, PrefersTheMatrixThenTilesThenLandmarks) {
  EXPECT_EQ(Auto(5000, kGibibyte).engine, "krylov");
  EXPECT_EQ(Auto(20000, kGibibyte).engine, "tiled");
  EXPECT_EQ(Auto(1000000, kGibibyte).engine, "landmark");
  EXPECT_EQ(Auto(20000, 8 * kGibibyte).engine, "krylov") << "with more memory the matrix fits";
}

TEST(ChooseEngine, DoesNotWaitMinutesForTheLastDigits) {
  // Half of 100,000 x 20 for each of two classes on two cores, and the same with the memory for a matrix.
  const ClassSize half{.rows = 50000, .dims = 20, .memory_bytes = kGibibyte, .threads = 1};
  EXPECT_EQ(ChooseEngine("auto", half)->engine, "landmark");
  EXPECT_EQ(ChooseEngine("auto", {half.rows, half.dims, 64 * kGibibyte, half.threads})->engine, "landmark");
  EXPECT_EQ(ChooseEngine("auto", {half.rows, half.dims, kGibibyte, 16})->engine, "tiled")
      << "with more cores it is quick";
}

TEST(ChooseEngine, SaysWhyAndHowMuch) {
  const EngineChoice tiled = Auto(20000, kGibibyte);
  EXPECT_NE(tiled.reason.find("20000 rows"), std::string::npos) << tiled.reason;
  EXPECT_EQ(tiled.form, KernelForm::kTiles);
  EXPECT_GT(tiled.basis_bytes, 0u);
  EXPECT_LE(tiled.basis_bytes, kGibibyte / 2);
  const EngineChoice landmark = Auto(1000000, kGibibyte);
  EXPECT_EQ(landmark.form, KernelForm::kLandmarks);
  EXPECT_GE(landmark.landmarks, 1000u);
  EXPECT_NE(landmark.reason.find("recomputing"), std::string::npos) << landmark.reason;
}

TEST(ChooseEngine, FewerLandmarksFitIntoLessMemory) {
  const std::size_t plenty = Auto(1000000, kGibibyte).landmarks;
  const std::size_t little = Auto(1000000, kGibibyte / 16).landmarks;
  EXPECT_LT(little, plenty);
  EXPECT_GE(little, 100u);
}

TEST(ChooseEngine, RefinesWhatLandmarksShowIfTimeAndMemoryAllow) {
  const ClassSize class_of_two{.rows = 50000, .dims = 64, .memory_bytes = kGibibyte, .threads = 1};
  const EngineChoice choice = *ChooseEngine("landmark", class_of_two);
  EXPECT_TRUE(choice.refine);
  EXPECT_FALSE(ChooseEngine("landmark", {1000000, 64, kGibibyte, 1})->refine);
  const EngineChoice cramped = *ChooseEngine("landmark", {50000, 64, kGibibyte / 4, 1});
  EXPECT_TRUE(cramped.refine) << "fewer landmarks, refined, are worth more than many that are not";
  EXPECT_LT(cramped.landmarks, choice.landmarks);
  EXPECT_GE(cramped.landmarks, 1000u);
  EXPECT_FALSE(ChooseEngine("landmark", {50000, 64, kGibibyte / 8, 1})->refine);
  const EngineChoice plain = *ChooseEngine("landmark", {50000, 64, kGibibyte / 4, 1, /*may_refine=*/false});
  EXPECT_FALSE(plain.refine);
  EXPECT_GT(plain.landmarks, cramped.landmarks) << "what refining would have taken is there for landmarks";
  EXPECT_FALSE(ChooseEngine("tiled", class_of_two)->refine);
}

TEST(ChooseEngine, DoesWhatItIsTold) {
  for (const char* name : {"dense", "krylov", "tiled", "landmark"}) {
    const EngineChoice choice = *ChooseEngine(name, {.rows = 3000, .dims = 10});
    EXPECT_EQ(choice.engine, name);
    EXPECT_TRUE(choice.reason.empty());
    EXPECT_EQ(choice.form, FormOf(name));
  }
  EXPECT_EQ(ChooseEngine("landmark", {.rows = 3000, .dims = 10})->landmarks, 3000u);
}

TEST(ChooseEngine, RefusesAMatrixThatDoesNotFit) {
  const auto choice = ChooseEngine("krylov", {.rows = 50000, .dims = 10, .memory_bytes = kGibibyte});
  EXPECT_EQ(choice.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(choice.status().message().find("engine auto"), std::string::npos) << choice.status();
}

}  // namespace
}  // namespace fulcrum::leverage
