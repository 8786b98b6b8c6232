// `fulcrum work --oracle` against a server that loses answers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/support/process.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/pipeline/client/fake_daemon.h"

namespace fulcrum::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr int kItems = 10;

std::string RightAnswer(int item) {
  return item % 3 == 0 ? "pos" : "neg";
}

class WorkCommandTest : public ::testing::Test {
 protected:
  std::string WriteOracle() const {
    std::string text = "id,label,note\n";
    for (int item = 0; item < kItems; ++item) absl::StrAppend(&text, item, ",", RightAnswer(item), ",x\n");
    return folder_.Write("oracle.csv", text);
  }

  std::vector<std::string> Words(const FakeDaemon& daemon, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"work",           "--campaign", "c",           "--annotator", "ada", "--server",
                                      daemon.address(), "--oracle",   WriteOracle(), "--batch",     "3"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  TemporaryDirectory folder_;
};

TEST_F(WorkCommandTest, AnswersEverythingOnceAndEndsWithTheCampaign) {
  FakeDaemon daemon({.items = kItems});
  const ProgramResult result = RunFulcrum(Words(daemon));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("ada: 10 labels accepted (0 late), 0 refused, 0 skipped\n"));
  const FakeLedger ledger = daemon.ledger();
  ASSERT_THAT(ledger.values_of_item, SizeIs(kItems));
  for (int item = 0; item < kItems; ++item) {
    EXPECT_EQ(ledger.values_of_item.at(std::to_string(item)), std::vector<std::string>{RightAnswer(item)});
  }
  EXPECT_THAT(ledger.calls_of_request, Each(Pair(Not(IsEmpty()), 1)));
}

TEST_F(WorkCommandTest, LostAnswersAreAskedForAgainUnderTheSameIdAndNothingCountsTwice) {
  FakeDaemon daemon({.items = kItems, .lost_answers = 2});
  const ProgramResult result = RunFulcrum(Words(daemon, {"--skip-rate", "0.3", "--quiet"}));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const FakeLedger ledger = daemon.ledger();
  EXPECT_THAT(ledger.errors, IsEmpty());
  EXPECT_THAT(ledger.calls_of_request, Each(Pair(Not(IsEmpty()), 3))) << "two lost, one that arrived";
  EXPECT_THAT(ledger.values_of_item, Each(Pair(Not(IsEmpty()), SizeIs(1))));
  EXPECT_THAT(ledger.skips, Not(IsEmpty()));
  EXPECT_EQ(ledger.values_of_item.size() + ledger.skips.size(), static_cast<std::size_t>(kItems));
}

TEST_F(WorkCommandTest, CrashHandsNothingBackAndARestartedWorkerFinishesWithNewRequestIds) {
  FakeDaemon daemon({.items = kItems});
  std::vector<std::string> words = Words(daemon, {"--crash-rate", "1"});
  words.insert(words.begin(), FULCRUM_PROGRAM);
  const ProcessResult crashed = RunProcess(words);
  EXPECT_EQ(crashed.exit_code, 1);
  EXPECT_THAT(crashed.standard_output, IsEmpty());
  EXPECT_EQ(daemon.ledger().released, 0);
  EXPECT_THAT(daemon.ledger().values_of_item, IsEmpty());
  EXPECT_THAT(daemon.ledger().calls_of_request, SizeIs(1));

  daemon.ExpireLeases();
  EXPECT_EQ(RunFulcrum(Words(daemon)).exit_code, 0);
  EXPECT_THAT(daemon.ledger().errors, IsEmpty());
  EXPECT_THAT(daemon.ledger().values_of_item, SizeIs(kItems));
}

TEST_F(WorkCommandTest, PoolWithLabelsAndWithoutIdsIsAnOracleToo) {
  FakeDaemon daemon({.items = 2});
  const std::string pool = folder_.Write("pool.csv", "label,f0,f1\nneg,1,2\npos,3,4\n");
  const ProgramResult result =
      RunFulcrum({"work", "--campaign", "c", "--annotator", "a", "--server", daemon.address(), "--oracle", pool});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(daemon.ledger().values_of_item.at("0").front(), "neg");
  EXPECT_EQ(daemon.ledger().values_of_item.at("1").front(), "pos");
}

TEST_F(WorkCommandTest, AnswerOutsideTheClassesEndsWithTheFileAndHandsTasksBack) {
  FakeDaemon daemon({.items = kItems, .classes = {"cat", "dog"}});
  const ProgramResult result = RunFulcrum(Words(daemon));
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.errors, HasSubstr("--oracle: the answer for '0' is 'pos', but the campaign's classes are 'cat'"));
  EXPECT_EQ(daemon.ledger().released, 3);
}

TEST_F(WorkCommandTest, TokenComesFromFileOrEnvironmentAndIsNeverShown) {
  FakeDaemon daemon({.items = kItems, .token = "s3cret"});
  const ProgramResult without = RunFulcrum(Words(daemon));
  EXPECT_EQ(without.exit_code, 77);
  EXPECT_THAT(without.errors, HasSubstr("--token-file or FULCRUM_TOKEN"));

  const ProgramResult wrong = RunFulcrum(Words(daemon, {"--token-file", folder_.Write("wrong", "s3cre7\n")}));
  EXPECT_EQ(wrong.exit_code, 77);
  EXPECT_THAT(wrong.errors, Not(HasSubstr("s3cre7")));

  EXPECT_EQ(RunFulcrum(Words(daemon, {"--token-file", folder_.Write("token", "s3cret\n")})).exit_code, 0);
  daemon.ExpireLeases();
  setenv("FULCRUM_TOKEN", "s3cret", 1);
  EXPECT_EQ(RunFulcrum(Words(daemon)).exit_code, 0);
  unsetenv("FULCRUM_TOKEN");
}

TEST_F(WorkCommandTest, ServerThatStaysAwayIsTryAgain) {
  std::vector<std::string> words;
  {
    FakeDaemon gone;
    words = Words(gone, {"--retry-for", "10ms"});
  }
  const ProgramResult result = RunFulcrum(words);
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(result.errors, HasSubstr("cannot reach a server at 127.0.0.1:"));
  EXPECT_THAT(result.errors, HasSubstr("fulcrum serve"));
}

TEST_F(WorkCommandTest, WrongOptionsAreUsageErrors) {
  FakeDaemon daemon;
  EXPECT_EQ(RunFulcrum(Words(daemon, {"--delay", "soon"})).exit_code, 2);
  EXPECT_EQ(RunFulcrum(Words(daemon, {"--accuracy", "1.5"})).exit_code, 2);
  EXPECT_THAT(RunFulcrum({"work", "--campaign", "c", "--annotator", "a"}).errors, HasSubstr("--oracle"));
  const ProgramResult far = RunFulcrum({"work", "--campaign", "c", "--annotator", "a", "--server", "example.org:7410",
                                        "--token-file", folder_.Write("t", "abc")});
  EXPECT_EQ(far.exit_code, 2);
  EXPECT_THAT(far.errors, HasSubstr("unencrypted"));
}

}  // namespace
}  // namespace fulcrum::testing
