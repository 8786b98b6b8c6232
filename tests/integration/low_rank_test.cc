// `fulcrum select` on pools whose kernel has a low rank: every engine that can take advantage of it takes two seconds
// of one processor at most. The time is printed.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "tests/integration/program_fixture.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

constexpr double kMostCpuSeconds = 2;

class LowRankTest : public ProgramTest {
 protected:
  /// Rows of one feature that has so many values.
  void WriteRows(std::size_t rows, std::size_t values) const {
    std::string text = "id,f0\n";
    for (std::size_t row = 0; row < rows; ++row) {
      text += RowId(row) + "," + std::to_string(row % values) + "\n";
    }
    folder_.Write("pool.csv", text);
    WriteLabels(20);
  }

  void ExpectFast(const std::string& engine) const {
    const ProcessResult result = Select({"--strategy", "dbalevs", "--engine", engine, "--batch", "10", "--quiet"});
    ASSERT_EQ(result.exit_code, 0) << engine << ": " << result.standard_error;
    std::set<std::string> ids;
    for (const auto& row : ParseCsv(result.standard_output)) ids.insert(row.at("id"));
    EXPECT_EQ(ids.size(), 10u) << engine;
    std::printf("%s: %.2f s of processor time, %.0f MiB\n", engine.c_str(), result.cpu_seconds,
                static_cast<double>(result.peak_bytes) / (1 << 20));
    if (!kUnderSanitizer) {
      EXPECT_LT(result.cpu_seconds, kMostCpuSeconds) << engine;
    }
  }
};

TEST_F(LowRankTest, FiveThousandIdenticalRows) {
  WriteRows(5000, 1);
  for (const char* engine : {"auto", "krylov", "tiled", "landmark"}) ExpectFast(engine);
}

TEST_F(LowRankTest, FiftyThousandRowsOfOneBinaryFeature) {
  WriteRows(50'000, 2);
  for (const char* engine : {"auto", "krylov", "tiled", "landmark"}) ExpectFast(engine);
}

}  // namespace
}  // namespace fulcrum::testing
