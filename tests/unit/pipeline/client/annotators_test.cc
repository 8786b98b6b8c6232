// The two annotators: the imitation and the person at a terminal.

#include "pipeline/client/annotators.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "pipeline/client/server_connection.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/pipeline/client/fake_timing.h"

namespace fulcrum::pipeline {
namespace {

using Kind = Decision::Kind;
using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::FakeTiming;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kItems = 4000;

bool Always() {
  return true;
}

WorkTask Task(int item, std::int64_t epoch = 1) {
  return {.lease = {item + 1, epoch},
          .item_id = absl::StrCat("item", item),
          .payload = "look",
          .classes = {"a", "b", "c"},
          .question = "What?"};
}

Oracle AllB() {
  Oracle oracle;
  for (int item = 0; item < kItems; ++item) oracle.emplace(absl::StrCat("item", item), "b");
  return oracle;
}

/// How often each thing was decided over all items: "label b", "skip", "crash".
std::map<std::string, int> Count(ImitationOptions options) {
  FakeTiming time;
  SimulatedAnnotator annotator(AllB(), std::move(options), time.timing());
  std::map<std::string, int> counts;
  for (int item = 0; item < kItems; ++item) {
    const auto decision = annotator.Decide(Task(item), Always);
    EXPECT_TRUE(decision.ok()) << decision.status();
    ++counts[decision->kind == Kind::kLabel  ? "label " + decision->value
             : decision->kind == Kind::kSkip ? "skip"
                                             : "crash"];
  }
  return counts;
}

TEST(ImitatedAnnotatorTest, IsAlwaysRightUnlessToldOtherwise) {
  EXPECT_EQ(Count({}), (std::map<std::string, int>{{"label b", kItems}}));
}

TEST(ImitatedAnnotatorTest, ErrsUniformlyOverTheOtherClasses) {
  const auto counts = Count({.accuracy = 0.7});
  EXPECT_NEAR(counts.at("label b"), 0.70 * kItems, 120);
  EXPECT_NEAR(counts.at("label a"), 0.15 * kItems, 90);
  EXPECT_NEAR(counts.at("label c"), 0.15 * kItems, 90);
}

TEST(ImitatedAnnotatorTest, SkipsAndCrashesAtItsRates) {
  const auto counts = Count({.skip_rate = 0.2, .crash_rate = 0.1});
  EXPECT_NEAR(counts.at("crash"), 0.1 * kItems, 80);
  EXPECT_NEAR(counts.at("skip"), 0.9 * 0.2 * kItems, 100);
}

TEST(ImitatedAnnotatorTest, AnswersDependOnSeedNameAndItemButNotOnTheLease) {
  FakeTiming time;
  const auto answers = [&](ImitationOptions options, std::int64_t epoch) {
    options.accuracy = 0.5;
    SimulatedAnnotator annotator(AllB(), std::move(options), time.timing());
    std::string text;
    for (int item = 99; item >= 0; --item) text += annotator.Decide(Task(item, epoch), Always)->value;
    return text;
  };
  EXPECT_EQ(answers({.seed = 1, .annotator = "x"}, 1), answers({.seed = 1, .annotator = "x"}, 9));
  EXPECT_NE(answers({.seed = 1, .annotator = "x"}, 1), answers({.seed = 2, .annotator = "x"}, 1));
  EXPECT_NE(answers({.seed = 1, .annotator = "x"}, 1), answers({.seed = 1, .annotator = "y"}, 1));
}

TEST(ImitatedAnnotatorTest, ARestartedWorkerDoesNotCrashOverTheSameTaskForEver) {
  FakeTiming time;
  SimulatedAnnotator annotator(AllB(), {.crash_rate = 0.5}, time.timing());
  for (int item = 0; item < 50; ++item) {
    bool survived = false;
    for (std::int64_t epoch = 1; epoch < 40 && !survived; ++epoch) {
      survived = annotator.Decide(Task(item, epoch), Always)->kind == Kind::kLabel;
    }
    EXPECT_TRUE(survived) << item;
  }
}

TEST(ImitatedAnnotatorTest, TakesItsTimeAndKeepsLeasesAlive) {
  FakeTiming time;
  SimulatedAnnotator annotator(AllB(), {.delay = milliseconds(2'300)}, time.timing());
  int kept_alive = 0;
  EXPECT_EQ(annotator.Decide(Task(1), [&] { return ++kept_alive > 0; })->value, "b");
  EXPECT_EQ(time.elapsed, milliseconds(2'300));
  EXPECT_GE(kept_alive, 3);
  time.sleeps_left = 1;
  EXPECT_EQ(annotator.Decide(Task(1), Always)->kind, Kind::kQuit);
}

TEST(ImitatedAnnotatorTest, SkipsWhatItDoesNotKnowAndRefusesForeignClasses) {
  FakeTiming time;
  SimulatedAnnotator annotator({{"item1", "zebra"}}, {}, time.timing());
  EXPECT_EQ(annotator.Decide(Task(7), Always)->kind, Kind::kSkip);
  const auto foreign = annotator.Decide(Task(1), Always);
  EXPECT_EQ(foreign.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(foreign.status().message()), AllOf(HasSubstr("zebra"), HasSubstr("'a', 'b', 'c'")));
}

TEST(LoadOracleTest, ReadsLabelFilesAndSaysWhatIsWrong) {
  const testing::TemporaryDirectory folder;
  const auto oracle = LoadOracle(folder.Write("a.csv", "id,label\nx,1\ny,\nz,2\n"));
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  EXPECT_EQ(*oracle, (Oracle{{"x", "1"}, {"z", "2"}}));
  EXPECT_FALSE(LoadOracle(folder.Write("b.csv", "id,label\n")).ok());
  EXPECT_THAT(std::string(LoadOracle(folder.Write("c.csv", "id,label\nx,1\nx,2\n")).status().message()),
              HasSubstr("'x' is '2' here and '1' in line 2"));
  EXPECT_THAT(std::string(LoadOracle(folder.Write("d.csv", "id,answer\nx,1\n")).status().message()),
              HasSubstr("there must be one named 'label'"));
}

/// Keys from a script; a '.' is nobody pressing anything.
class ScriptedTerminal final : public KeyTerminal {
 public:
  explicit ScriptedTerminal(std::string keys) : keys_(std::move(keys)) {}
  std::optional<char> ReadKey(milliseconds) override {
    if (closed()) return std::nullopt;
    const char key = keys_[next_++];
    return key == '.' ? std::nullopt : std::optional<char>(key);
  }
  void Write(std::string_view text) override { written.append(text); }
  bool closed() const override { return next_ >= keys_.size(); }

  std::string written;

 private:
  const std::string keys_;
  std::size_t next_ = 0;
};

TEST(TerminalAnnotatorTest, OneKeyAClassAndOtherKeysDoNothing) {
  ScriptedTerminal terminal("..x?b");
  TerminalAnnotator annotator(terminal);
  int kept_alive = 0;
  const auto decision = annotator.Decide(Task(3), [&] { return ++kept_alive > 0; });
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->kind, Kind::kLabel);
  EXPECT_EQ(decision->value, "b");
  EXPECT_GE(kept_alive, 3);
  EXPECT_THAT(terminal.written, AllOf(HasSubstr("[item3] What?"), HasSubstr("look"), HasSubstr("  c c\n")));
}

TEST(TerminalAnnotatorTest, UndoSkipQuitAndAGoneTerminal) {
  const auto decide = [](const std::string& keys) {
    ScriptedTerminal terminal(keys);
    return *TerminalAnnotator(terminal).Decide(Task(1), Always);
  };
  EXPECT_EQ(decide("u").kind, Kind::kUndo);
  EXPECT_EQ(decide("q").kind, Kind::kQuit);
  EXPECT_EQ(decide("").kind, Kind::kQuit);
  EXPECT_EQ(decide("su").skip_reason, SkipReason::kUnsure);
  EXPECT_EQ(decide("sb").skip_reason, SkipReason::kBadItem);
  EXPECT_EQ(decide("sn").skip_reason, SkipReason::kNotNow);
  EXPECT_EQ(decide("sn").kind, Kind::kSkip);
  EXPECT_EQ(decide("sxa").value, "a") << "any other key goes back";
}

TEST(TerminalAnnotatorTest, PayloadsCannotSteerTheTerminal) {
  ScriptedTerminal terminal("a");
  WorkTask task = Task(1);
  task.payload =
      "line one\n\x1b]52;c;evil\x07 \xC2\x9B"
      "2J caf\xC3\xA9";
  EXPECT_TRUE(TerminalAnnotator(terminal).Decide(task, Always).ok());
  EXPECT_THAT(terminal.written,
              AllOf(HasSubstr("line one\n\\x1b]52;c;evil\\x07 \\xc2\\x9b2J caf\xC3\xA9"), Not(HasSubstr("\x1b"))));
}

TEST(TerminalAnnotatorTest, LastAnswerCanBeTakenBack) {
  const auto review = [](const std::string& keys) {
    ScriptedTerminal terminal(keys);
    return TerminalAnnotator(terminal).ReviewLast(Always);
  };
  EXPECT_EQ(review("..u"), Kind::kUndo);
  EXPECT_EQ(review(" "), Kind::kLabel);
  EXPECT_EQ(review("q"), Kind::kQuit);
  EXPECT_EQ(review("...................u"), Kind::kLabel) << "it is not waited for ever";
}

TEST(ClassKeysTest, NamesOfOneLetterAreTheirOwnKeys) {
  EXPECT_EQ(*ClassKeys({"cat", "dog"}), "12");
  EXPECT_EQ(*ClassKeys({"0", "1", "x"}), "01x");
  EXPECT_EQ(*ClassKeys({"2", "other", "q"}), "213");
  EXPECT_FALSE(ClassKeys(std::vector<std::string>(40, "long")).ok());
  std::vector<std::string> many;
  for (int i = 0; i < 30; ++i) many.push_back(absl::StrCat("class ", i));
  const std::string keys = *ClassKeys(many);
  EXPECT_EQ(std::set<char>(keys.begin(), keys.end()).size(), 30u);
  EXPECT_EQ(keys.find_first_of("usq"), std::string::npos);
}

TEST(RawTerminalTest, GivesKeysAtOnceAndPutsTheTerminalBack) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(slave, 0);
  termios before{}, during{}, after{};
  tcgetattr(slave, &before);
  StopFlag stop;
  {
    RawTerminal terminal(slave, slave, stop);
    tcgetattr(slave, &during);
    ASSERT_EQ(write(master, "x", 1), 1);
    EXPECT_EQ(terminal.ReadKey(milliseconds(10'000)), 'x') << "without a line end";
    stop.Raise();
    EXPECT_EQ(terminal.ReadKey(milliseconds(100'000)), std::nullopt) << "a raised flag ends the wait";
  }
  tcgetattr(slave, &after);
  EXPECT_EQ(during.c_lflag & (ICANON | ECHO), 0u);
  EXPECT_EQ(after.c_lflag, before.c_lflag);
  EXPECT_NE(before.c_lflag & (ICANON | ECHO), 0u);
  close(slave);
  close(master);
}

TEST(StopOnSignalsTest, FirstSignalRaisesTheFlag) {
  StopFlag stop;
  const StopOnSignals signals(stop);
  EXPECT_TRUE(stop.Sleep(milliseconds(0)));
  raise(SIGTERM);
  EXPECT_TRUE(stop.raised());
  EXPECT_FALSE(stop.Sleep(milliseconds(1'000'000)));
}

TEST(StopOnSignalsDeathTest, SecondSignalRunsTheLastActAndEnds) {
  const auto twice = [] {
    StopFlag stop;
    const StopOnSignals signals(stop);
    StopOnSignals::SetLastAct([] {
      if (write(STDERR_FILENO, "restored", 8) < 0) return;
    });
    raise(SIGINT);
    raise(SIGINT);
  };
  EXPECT_EXIT(twice(), ::testing::ExitedWithCode(128 + SIGINT), "restored");
}

}  // namespace
}  // namespace fulcrum::pipeline
