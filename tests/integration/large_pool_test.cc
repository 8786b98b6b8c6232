// Pools that are large compared to --memory: they stay on the disk, classes get engines that fit, and the promise is
// kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/integration/program_fixture.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMostMemory = std::uint64_t{240} << 20;

class LargePoolTest : public ProgramTest {
 protected:
  /// Features take 32 MB as doubles, more than an eighth of the memory.
  void MakePool() const {
    const ProcessResult made =
        Run({"generate", "ringnorm", "--rows", "20000", "--dims", "200", "--seed", "1", "--out", File("ring.csv")});
    ASSERT_EQ(made.exit_code, 0) << made.standard_error;
    const ProcessResult imported = Run({"import", File("ring.csv"), "--label", "label", "--out", File("pool")});
    ASSERT_EQ(imported.exit_code, 0) << imported.standard_error;
    std::string labels = "id,label\n";
    // The generator takes turns at the classes at random; its first rows tell which is which.
    const std::string text = Read("ring.csv");
    const CsvRows rows = ParseCsv(text.substr(0, text.rfind('\n', 200000)));
    for (std::size_t row = 0; row < 20; ++row) absl::StrAppend(&labels, row, ",", rows[row].at("label"), "\n");
    folder_.Write("labels.csv", labels);
  }

  ProcessResult SelectWithin(const std::string& memory, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"select",  "--pool",   File("pool"),       "--labels", File("labels.csv"),
                                      "--batch", "12",       "--strategy",       "dbalevs",  "--memory",
                                      memory,    "--report", File("report.json")};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
};

TEST_F(LargePoolTest, ARoundStaysWithinItsMemoryAndSaysHow) {
  MakePool();
  const ProcessResult result = SelectWithin("240MiB", {});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(ParseCsv(result.standard_output).size(), 12u);
  EXPECT_TRUE(kUnderSanitizer || result.peak_bytes < kMostMemory) << result.peak_bytes;
  const auto report = nlohmann::json::parse(Read("report.json"));
  // Twenty labels in 200 dimensions may leave one class with hardly more than its labels.
  std::size_t large_classes = 0;
  for (const auto& group : report["classes"]) {
    if (group["m"].get<std::size_t>() < 5000) continue;
    ++large_classes;
    EXPECT_EQ(group["engine"], "landmark");
    EXPECT_THAT(group["reason"].get<std::string>(), HasSubstr("a kernel matrix of"));
    EXPECT_THAT(group["reason"].get<std::string>(), HasSubstr("landmarks capture"));
  }
  EXPECT_GE(large_classes, 1u);
}

TEST_F(LargePoolTest, WhatDoesNotFitIsRefusedBeforeItIsTried) {
  MakePool();
  const ProcessResult too_little = SelectWithin("100MiB", {});
  EXPECT_EQ(too_little.exit_code, 75);
  EXPECT_THAT(too_little.standard_error, HasSubstr("--memory is 100 MiB"));
  const ProcessResult matrix = SelectWithin("240MiB", {"--engine", "krylov"});
  EXPECT_EQ(matrix.exit_code, 75);
  EXPECT_THAT(matrix.standard_error, HasSubstr("--engine auto"));
  EXPECT_TRUE(kUnderSanitizer || matrix.peak_bytes < kMostMemory) << matrix.peak_bytes;
}

}  // namespace
}  // namespace fulcrum::testing
