#include "pipeline/text/structured_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

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

TEST(StructuredLog, ControlCharactersAreEscapedInBothFormats) {
  const std::string name("evil\x1b]0;owned\x07\0end", 18);
  EXPECT_EQ(FormatLogLine(LogFormat::kText, "now", LogLevel::kInfo, "x\x9b", {{"name", name}}),
            "time=now level=info message=\"x\\\\x9b\" name=\"evil\\\\x1b]0;owned\\\\x07\\\\x00end\"");
  const std::string line = FormatLogLine(LogFormat::kJson, "now", LogLevel::kInfo, "x", {{"name", name}});
  EXPECT_EQ(nlohmann::json::parse(line)["name"], "evil\\x1b]0;owned\\x07\\x00end");
}

TEST(StructuredLog, LinesOfLibrariesHaveTheSameFormat) {
  ::testing::internal::CaptureStderr();
  StartLog(LogFormat::kJson);
  GOOGLE_LOG(WARNING) << "from protobuf";
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  gpr_log("file.cc", 7, GPR_LOG_SEVERITY_ERROR, "from %s", "gRPC");
  std::istringstream lines(::testing::internal::GetCapturedStderr());
  std::vector<nlohmann::json> logged;
  for (std::string line; std::getline(lines, line);) logged.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(logged.size(), 2u);
  EXPECT_EQ(logged[0]["library"], "protobuf");
  EXPECT_EQ(logged[0]["message"], "from protobuf");
  EXPECT_EQ(logged[0]["level"], "warning");
  EXPECT_EQ(logged[1]["library"], "gRPC");
  EXPECT_EQ(logged[1]["message"], "from gRPC");
  EXPECT_EQ(logged[1]["source"], "file.cc:7");
}

TEST(StructuredLog, DoesNotWaitForAReaderThatStopped) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDERR_FILENO);
  ASSERT_GE(dup2(ends[1], STDERR_FILENO), 0);
  StartLog(LogFormat::kJson);
  constexpr int kLines = 3000;  // more than a pipe takes
  for (int i = 0; i < kLines; ++i) Log(LogLevel::kInfo, "nobody reads this", {{"number", std::int64_t{i}}});
  std::string taken(1 << 20, ' ');
  const ssize_t first = read(ends[0], taken.data(), taken.size());
  ASSERT_GT(first, 0);
  taken.resize(static_cast<std::size_t>(first));
  Log(LogLevel::kInfo, "read again");
  std::string rest(1 << 16, ' ');
  const ssize_t second = read(ends[0], rest.data(), rest.size());
  dup2(before, STDERR_FILENO);
  for (const int end : {ends[0], ends[1], before}) close(end);
  ASSERT_GT(second, 0);
  taken.append(rest, 0, static_cast<std::size_t>(second));
  std::istringstream lines(taken);
  std::int64_t written = 0, dropped = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (entry.is_discarded()) continue;  // the one that was cut
    written += entry["message"] == "nobody reads this" ? 1 : 0;
    if (entry.contains("lines")) dropped = entry["lines"];
  }
  EXPECT_GT(written, 100);
  EXPECT_EQ(written + dropped, kLines);
  EXPECT_NE(taken.find("read again"), std::string::npos);
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
