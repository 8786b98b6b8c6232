#include "pipeline/client/work_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/unit/pipeline/client/fake_timing.h"

namespace fulcrum::pipeline {
namespace {

using Kind = Decision::Kind;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::FakeTiming;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Gives one batch of tasks, then says that the campaign is over. Notes every call.
class ScriptedCalls final : public LabelingCalls {
 public:
  explicit ScriptedCalls(int tasks, absl::Duration lease = absl::Minutes(10)) {
    for (int i = 0; i < tasks; ++i) {
      batch.tasks.push_back({.lease = {i + 1, 1},
                             .item_id = absl::StrCat("item", i),
                             .expires_at = absl::Now() + lease,
                             .classes = {"a", "b"}});
    }
  }

  absl::StatusOr<std::string> GetPayload(const std::string& item) override { return "payload of " + item; }
  absl::StatusOr<TaskBatch> Acquire(const std::string& id, int, milliseconds) override {
    Note("acquire", id);
    if (acquired) return TaskBatch{.campaign_over = true};
    acquired = true;
    return batch;
  }
  absl::StatusOr<std::vector<RenewResult>> Renew(const std::string& id, const std::vector<LeaseName>& leases) override {
    Note("renew", id);
    std::vector<RenewResult> results;
    for (const LeaseName& lease : leases) {
      renewed.insert(lease.lease_id);
      results.push_back({.status = ended.contains(lease.lease_id) ? absl::AbortedError("ended") : absl::OkStatus(),
                         .expires_at = absl::Now() + absl::Minutes(10)});
    }
    return results;
  }
  absl::StatusOr<std::vector<SubmitResult>> Submit(const std::string& id,
                                                   const std::vector<LabelAnswer>& labels) override {
    std::string content = "submit";
    for (const LabelAnswer& label : labels) absl::StrAppend(&content, " ", label.item_id, "=", label.value);
    Note(content, id);
    if (submit_failures-- > 0) return absl::UnavailableError("away");
    return std::vector<SubmitResult>(labels.size());
  }
  absl::StatusOr<std::vector<absl::Status>> Skip(const std::string& id, const std::vector<SkipAnswer>& skips) override {
    Note(absl::StrCat("skip ", skips[0].lease.lease_id, " ", static_cast<int>(skips[0].reason)), id);
    return std::vector<absl::Status>(skips.size());
  }
  absl::StatusOr<std::vector<absl::Status>> Release(const std::string& id,
                                                    const std::vector<LeaseName>& leases) override {
    std::string content = "release";
    for (const LeaseName& lease : leases) absl::StrAppend(&content, " ", lease.lease_id);
    Note(content, id);
    return std::vector<absl::Status>(leases.size());
  }

  void Note(const std::string& content, const std::string& id) {
    calls.push_back(content);
    const auto [known, is_new] = content_of_id.emplace(id, content);
    EXPECT_EQ(known->second, content) << "one id, two contents";
  }

  TaskBatch batch;
  bool acquired = false;
  int submit_failures = 0;
  std::set<std::int64_t> ended;
  std::set<std::int64_t> renewed;
  std::vector<std::string> calls;
  std::map<std::string, std::string> content_of_id;
};

/// Does what the script says, one decision a call.
class ScriptedAnnotator final : public Annotator {
 public:
  ScriptedAnnotator(std::vector<Decision> script, HoldBack hold_back)
      : script_(std::move(script)), hold_back_(hold_back) {}

  absl::StatusOr<Decision> Decide(const WorkTask& task, const KeepAlive& keep_alive) override {
    asked.push_back(task.item_id);
    if (think) think();
    if (!keep_alive()) return Decision{.kind = Kind::kQuit};
    return script_[next_++];
  }
  Decision::Kind ReviewLast(const KeepAlive&) override { return std::exchange(review, Kind::kLabel); }
  HoldBack hold_back() const override { return hold_back_; }

  std::vector<std::string> asked;
  std::function<void()> think;
  Decision::Kind review = Kind::kLabel;

 private:
  const std::vector<Decision> script_;
  const HoldBack hold_back_;
  std::size_t next_ = 0;
};

Decision Label(const std::string& value) {
  return {.value = value};
}

constexpr HoldBack kOne{.count = 1};

TEST(WorkSessionTest, AnAnswerIsSentWhenTheNextIsGivenAndTheLastAtTheEnd) {
  ScriptedCalls calls(3);
  ScriptedAnnotator annotator({Label("a"), Label("b"), Label("a")}, kOne);
  FakeTiming time;
  WorkSession session({}, calls, annotator, time.timing());
  EXPECT_TRUE(session.Run().ok());
  EXPECT_THAT(calls.calls, ElementsAre("acquire", "submit item0=a", "submit item1=b", "submit item2=a", "acquire"));
  EXPECT_EQ(session.summary().accepted, 3u);
}

TEST(WorkSessionTest, UndoBringsTheLastTaskBackBeforeItsAnswerIsSent) {
  ScriptedCalls calls(2);
  ScriptedAnnotator annotator({Label("a"), {.kind = Kind::kUndo}, Label("b"), Label("b"), Label("a")}, kOne);
  annotator.review = Kind::kUndo;
  FakeTiming time;
  WorkSession session({}, calls, annotator, time.timing());
  EXPECT_TRUE(session.Run().ok());
  EXPECT_THAT(annotator.asked, ElementsAre("item0", "item1", "item0", "item1", "item1"));
  EXPECT_THAT(calls.calls, ElementsAre("acquire", "submit item0=b", "submit item1=a", "acquire"));
  EXPECT_EQ(session.summary().undone, 2u);
}

TEST(WorkSessionTest, QuitSendsWhatIsAnsweredAndReleasesTheRest) {
  ScriptedCalls calls(4);
  ScriptedAnnotator annotator(
      {Label("a"), {.kind = Kind::kSkip, .skip_reason = SkipReason::kBadItem}, {.kind = Kind::kQuit}}, kOne);
  FakeTiming time;
  WorkSession session({}, calls, annotator, time.timing());
  EXPECT_TRUE(session.Run().ok());
  EXPECT_THAT(calls.calls, ElementsAre("acquire", "skip 2 2", "submit item0=a", "release 3 4"));
  EXPECT_EQ(session.summary().released, 2u);
  EXPECT_EQ(session.summary().skipped, 1u);
}

TEST(WorkSessionTest, LeasesAreRenewedWhileSomebodyThinks) {
  ScriptedCalls calls(3, absl::Seconds(30));
  ScriptedAnnotator annotator({Label("a"), Label("a"), Label("a")}, {.count = 100});
  FakeTiming time;
  annotator.think = [&] { time.elapsed += milliseconds(15'000); };
  WorkSession session({}, calls, annotator, time.timing());
  EXPECT_TRUE(session.Run().ok());
  EXPECT_THAT(calls.renewed, ElementsAre(1, 2, 3));
}

TEST(WorkSessionTest, EndedLeasesAreDroppedButWhatIsAnsweredOrBeforeThePersonIsSent) {
  ScriptedCalls calls(3, absl::Seconds(30));
  calls.ended = {1, 2, 3};
  ScriptedAnnotator annotator({Label("a"), Label("b")}, {.count = 100});
  FakeTiming time;
  int thoughts = 0;
  annotator.think = [&] { time.elapsed += milliseconds(++thoughts == 2 ? 30'000 : 0); };
  WorkSession session({}, calls, annotator, time.timing());
  EXPECT_TRUE(session.Run().ok());
  EXPECT_THAT(calls.calls, ElementsAre("acquire", "renew", "submit item0=a item1=b", "acquire"));
  EXPECT_EQ(session.summary().lost, 1u);
}

TEST(WorkSessionTest, ARequestKeepsItsIdAndContentWhenTheWorkerIsAskedToEndInBetween) {
  ScriptedCalls calls(3);
  calls.submit_failures = 4;
  ScriptedAnnotator annotator({Label("a"), Label("b"), Label("a")}, kOne);
  FakeTiming time;
  time.sleeps_left = 2;
  WorkSession session({}, calls, annotator, time.timing());
  EXPECT_TRUE(session.Run().ok());
  // Three attempts, asked to end, two more under the same id, and then what else was answered.
  EXPECT_THAT(calls.calls, ElementsAre("acquire", "submit item0=a", "submit item0=a", "submit item0=a",
                                       "submit item0=a", "submit item0=a", "submit item1=b", "release 3"));
  EXPECT_EQ(calls.content_of_id.size(), 4u);
  EXPECT_EQ(session.summary().accepted, 2u);
}

TEST(WorkSessionTest, AnswersThatCouldNotBeSentAreAnError) {
  ScriptedCalls calls(1);
  calls.submit_failures = 1'000'000;
  ScriptedAnnotator annotator({Label("a")}, {});
  FakeTiming time;
  WorkSession session({.retry = {.give_up_after = milliseconds(2'000)}}, calls, annotator, time.timing());
  const absl::Status status = session.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST(WorkSessionTest, CrashDoesNothingMore) {
  ScriptedCalls calls(2);
  ScriptedAnnotator annotator({Label("a"), {.kind = Kind::kCrash}}, {.count = 100});
  FakeTiming time;
  struct Crash {};
  WorkSession session({.crash = [] { throw Crash(); }}, calls, annotator, time.timing());
  EXPECT_THROW(static_cast<void>(session.Run()), Crash);
  EXPECT_THAT(calls.calls, ElementsAre("acquire"));
}

TEST(WorkSummaryTest, SaysWhatIsNotZero) {
  EXPECT_EQ(DescribeWork({.accepted = 12, .late = 1, .refused = 2, .last_refusal = "'x': no", .released = 3}),
            "12 labels accepted (1 late), 2 refused, 0 skipped, 3 released; the last refusal: 'x': no");
}

}  // namespace
}  // namespace fulcrum::pipeline
