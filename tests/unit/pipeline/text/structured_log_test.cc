#include "pipeline/text/structured_log.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace fulcrum::pipeline {
namespace {

TEST(StructuredLog, TextQuotesWhatWouldBeMistaken) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, "now", LogLevel::kInfo, "batch committed",
                          {{"campaign", "rings"}, {"rounds", std::int64_t{20}}, {"warm", true}, {"seconds", 0.5}}),
            "time=now level=info message=\"batch committed\" campaign=rings rounds=20 warm=true seconds=0.5");
  EXPECT_EQ(
      FormatLogLine(LogFormat::kText, "now", LogLevel::kError, "x", {{"reason", "a=b\nlevel=info"}, {"empty", ""}}),
      "time=now level=error message=x reason=\"a=b\\nlevel=info\" empty=\"\"");
}

TEST(StructuredLog, JsonIsOneObjectALine) {
  const std::string reason = "a \"quoted\"\nline and \xff a byte that is no text";
  const std::string line = FormatLogLine(LogFormat::kJson, "now", LogLevel::kWarning, "m",
                                         {{"reason", reason}, {"port", std::int64_t{7410}}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["level"], "warning");
  EXPECT_EQ(parsed["port"], 7410);
  EXPECT_EQ(parsed["reason"].get<std::string>().substr(0, 17), "a \"quoted\"\nline a");
}

}  // namespace
}  // namespace fulcrum::pipeline
