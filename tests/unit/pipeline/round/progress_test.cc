#include "pipeline/round/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

std::string Shown(ProgressStyle style, const std::function<void(Progress&)>& use) {
  std::string text;
  {
    Progress progress("job", style, [&](std::string_view part) { text.append(part); });
    use(progress);
  }
  return text;
}

void TwoStages(Progress& progress) {
  progress.Update("read", 5, 0);
  progress.Update("eigen", 1, 2);
  progress.Update("eigen", 2, 2);
}

TEST(Progress, SilentSaysNothing) {
  EXPECT_EQ(Shown(ProgressStyle::kSilent, TwoStages), "");
}

TEST(Progress, OneLineIsRedrawnAndClearedAtTheEnd) {
  const std::string text = Shown(ProgressStyle::kOneLine, TwoStages);
  EXPECT_THAT(text, HasSubstr("job: read 5, "));
  EXPECT_THAT(text, HasSubstr("job: eigen 1/2, "));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
}

TEST(Progress, VerboseHasALineForEachStage) {
  const std::string text = Shown(ProgressStyle::kLinePerStage, TwoStages);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, HasSubstr(": read\n"));
  EXPECT_THAT(text, HasSubstr(": eigen\n"));
}

TEST(Progress, ManyThreadsNeverMixTheirText) {
  const std::string text = Shown(ProgressStyle::kLinePerStage, [](Progress& progress) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&progress, i] {
        for (int step = 0; step < 200; ++step) progress.Update(i % 2 == 0 ? "even" : "odd", 1, 2);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, ::testing::MatchesRegex("(job: [0-9.]+ s: (even|odd)\n)+"));
}

}  // namespace
}  // namespace fulcrum::pipeline
