// The guarantees for workers, per call.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;

class LabelingCallsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(daemon_->port(), "");
    ASSERT_TRUE(client_->Create(CloudSpec("clouds", 4)).ok());
    ASSERT_TRUE(client_->Start("clouds").ok());
  }

  static v1::AcquireTasksRequest Wanted(const std::string& annotator, const std::string& request_id, int tasks) {
    v1::AcquireTasksRequest request = TasksWanted("clouds", annotator, tasks);
    request.set_request_id(request_id);
    return request;
  }
  v1::Task OneTask(const std::string& annotator, const std::string& request_id) {
    v1::AcquireTasksResponse tasks;
    const grpc::Status status = client_->Acquire(Wanted(annotator, request_id, 1), &tasks);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(tasks.tasks_size(), 1);
    return tasks.tasks_size() == 1 ? tasks.tasks(0) : v1::Task();
  }
  static v1::WorkRequest Hello(const std::string& annotator, int credit) {
    v1::WorkRequest request;
    request.mutable_hello()->set_campaign("clouds");
    request.mutable_hello()->set_annotator(annotator);
    request.mutable_hello()->set_credit(credit);
    return request;
  }
  static v1::SubmitLabelsRequest Answer(const v1::Task& task, const std::string& annotator,
                                        const std::string& request_id, const std::string& value) {
    v1::SubmitLabelsRequest request = AnswerOf("clouds", annotator, task, value);
    request.set_request_id(request_id);
    return request;
  }
  v1::SubmitLabelsResponse::Result SubmitOne(const v1::SubmitLabelsRequest& request) {
    v1::SubmitLabelsResponse results;
    const grpc::Status status = client_->Submit(request, &results);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return results.results_size() == 1 ? results.results(0) : v1::SubmitLabelsResponse::Result();
  }

  std::unique_ptr<DaemonClient> client_;
};

TEST_F(LabelingCallsTest, ARepeatedRequestGetsTheFirstAnswer) {
  v1::AcquireTasksResponse first, second;
  ASSERT_TRUE(client_->Acquire(Wanted("ada", "a1", 3), &first).ok());
  ASSERT_TRUE(client_->Acquire(Wanted("ada", "a1", 3), &second).ok());
  EXPECT_EQ(first.tasks_size(), 3);
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());

  const v1::SubmitLabelsRequest answer = Answer(first.tasks(0), "ada", "s1", "pos");
  const auto once = SubmitOne(answer), twice = SubmitOne(answer);
  EXPECT_EQ(once.status().code(), 0);
  EXPECT_EQ(twice.status().code(), 0);
  EXPECT_EQ(once.sequence(), twice.sequence());
  EXPECT_EQ(client_->Export("clouds").size(), 1u);
}

TEST_F(LabelingCallsTest, TheSameIdWithAnotherContentIsRefused) {
  const v1::Task task = OneTask("ada", "a1");
  EXPECT_EQ(SubmitOne(Answer(task, "ada", "s1", "pos")).status().code(), 0);
  EXPECT_EQ(SubmitOne(Answer(task, "ada", "s1", "neg")).status().code(),
            static_cast<int>(grpc::StatusCode::ALREADY_EXISTS));
  v1::AcquireTasksResponse tasks;
  EXPECT_EQ(client_->Acquire(Wanted("ada", "a1", 2), &tasks).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(LabelingCallsTest, ALabelMustBeOneOfTheClassesAndOfTheLeasedItem) {
  const v1::Task task = OneTask("ada", "a1");
  const auto wrong_class = SubmitOne(Answer(task, "ada", "s1", "maybe"));
  EXPECT_EQ(wrong_class.status().code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_THAT(wrong_class.status().message(), HasSubstr("neg, pos"));
  v1::SubmitLabelsRequest other = Answer(task, "ada", "s2", "pos");
  other.mutable_labels(0)->set_item_id(absl::StrCat(task.item_id(), "0"));
  EXPECT_EQ(SubmitOne(other).status().code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
}

TEST_F(LabelingCallsTest, AnotherAnnotatorsLeaseIsOutOfReach) {
  const v1::Task task = OneTask("ada", "a1");
  EXPECT_EQ(SubmitOne(Answer(task, "eve", "s1", "pos")).status().code(),
            static_cast<int>(grpc::StatusCode::PERMISSION_DENIED));
}

TEST_F(LabelingCallsTest, AReleasedTaskIsOfferedAgainAndItsOldLeaseIsStale) {
  const v1::Task task = OneTask("ada", "a1");
  v1::ReleaseTasksRequest release;
  release.set_campaign("clouds");
  release.set_annotator("ada");
  release.set_request_id("r1");
  release.add_leases()->set_lease_id(task.lease_id());
  release.mutable_leases(0)->set_epoch(task.epoch());
  grpc::ClientContext context;
  client_->Prepare(context);
  v1::ReleaseTasksResponse released;
  ASSERT_TRUE(client_->labeling().ReleaseTasks(&context, release, &released).ok());
  EXPECT_EQ(released.results(0).code(), 0);

  const v1::Task again = OneTask("bob", "b1");
  EXPECT_EQ(again.item_id(), task.item_id());
  EXPECT_GT(again.epoch(), task.epoch());
  v1::RenewLeasesRequest renew;
  renew.set_campaign("clouds");
  renew.set_annotator("ada");
  renew.set_request_id("n1");
  *renew.add_leases() = release.leases(0);
  grpc::ClientContext renew_context;
  client_->Prepare(renew_context);
  v1::RenewLeasesResponse renewed;
  ASSERT_TRUE(client_->labeling().RenewLeases(&renew_context, renew, &renewed).ok());
  EXPECT_EQ(renewed.results(0).status().code(), static_cast<int>(grpc::StatusCode::ABORTED));
}

TEST_F(LabelingCallsTest, ASkipAsksSomebodyElse) {
  const v1::Task task = OneTask("ada", "a1");
  v1::SkipTasksRequest skip;
  skip.set_campaign("clouds");
  skip.set_annotator("ada");
  skip.set_request_id("k1");
  skip.add_skips()->mutable_lease()->set_lease_id(task.lease_id());
  skip.mutable_skips(0)->mutable_lease()->set_epoch(task.epoch());
  skip.mutable_skips(0)->set_reason(v1::SKIP_REASON_UNSURE);
  grpc::ClientContext context;
  client_->Prepare(context);
  v1::SkipTasksResponse skipped;
  ASSERT_TRUE(client_->labeling().SkipTasks(&context, skip, &skipped).ok());
  EXPECT_EQ(skipped.results(0).code(), 0);
  EXPECT_NE(OneTask("ada", "a2").item_id(), task.item_id());
  EXPECT_EQ(OneTask("bob", "b1").item_id(), task.item_id());
}

TEST_F(LabelingCallsTest, RequestsWithoutAnIdOrWithTooMuchAreRefused) {
  v1::AcquireTasksResponse tasks;
  EXPECT_EQ(client_->Acquire(Wanted("ada", "", 1), &tasks).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_->Acquire(Wanted("ada", std::string(129, 'x'), 1), &tasks).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_->Acquire(Wanted("ada", "a1", 1001), &tasks).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_->Acquire(Wanted("", "a1", 1), &tasks).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::AcquireTasksRequest elsewhere = Wanted("ada", "a1", 1);
  elsewhere.set_campaign("nowhere");
  EXPECT_EQ(client_->Acquire(elsewhere, &tasks).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(LabelingCallsTest, NumbersOutOfTheirRangeAreRefusedWithTheRange) {
  v1::AcquireTasksResponse tasks;
  v1::AcquireTasksRequest request = Wanted("ada", "n1", 1);
  request.mutable_wait()->set_seconds(std::numeric_limits<std::int64_t>::max());
  const grpc::Status status = client_->Acquire(request, &tasks);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("wait is 9.22337203685478e+18s; it must be at least 0s and at most"));

  v1::CampaignSpec spec = CloudSpec("forever", 4);
  spec.mutable_labeling()->mutable_lease_time()->set_seconds(80'000'000LL * 3600);
  const grpc::Status created = client_->Create(spec);
  EXPECT_EQ(created.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(created.error_message(), HasSubstr("labeling.lease_time: is 288000000000s"));
}

TEST_F(LabelingCallsTest, AStreamDoesItAll) {
  grpc::ClientContext context;
  client_->Prepare(context);
  const auto stream = client_->labeling().Work(&context);
  ASSERT_TRUE(stream->Write(Hello("ada", 3)));
  std::size_t out = 0, most_out = 0, accepted = 0;
  int requests = 0;
  v1::WorkResponse response;
  while (stream->Read(&response)) {
    for (const auto& result : response.submitted().results()) accepted += result.status().code() == 0 ? 1 : 0;
    if (response.tasks().campaign_over()) break;
    out += static_cast<std::size_t>(response.tasks().tasks_size());
    most_out = std::max(most_out, out);
    for (const v1::Task& task : response.tasks().tasks()) {
      v1::WorkRequest answer;
      *answer.mutable_submit() = Answer(task, "ada", absl::StrCat("w", ++requests), AnswerTo(task.item_id()));
      ASSERT_TRUE(stream->Write(answer));
      --out;
    }
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_LE(most_out, 3u);
  EXPECT_EQ(client_->Get("clouds").labels(), 24);
  EXPECT_EQ(client_->Get("clouds").state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_GE(accepted, 23u) << "the last answer may come after the news that the campaign is over";
}

TEST_F(LabelingCallsTest, WhatIsAnsweredTogetherOnAStreamIsReplacedTogether) {
  grpc::ClientContext context;
  client_->Prepare(context);
  const auto stream = client_->labeling().Work(&context);
  ASSERT_TRUE(stream->Write(Hello("ada", 2)));
  v1::WorkResponse tasks;
  ASSERT_TRUE(stream->Read(&tasks));
  ASSERT_EQ(tasks.tasks().tasks_size(), 2);
  v1::WorkRequest answer;
  *answer.mutable_submit() = Answer(tasks.tasks().tasks(0), "ada", "s1", "pos");
  *answer.mutable_submit()->add_labels() = Answer(tasks.tasks().tasks(1), "ada", "s1", "purple").labels(0);
  ASSERT_TRUE(stream->Write(answer));
  v1::WorkResponse submitted;
  ASSERT_TRUE(stream->Read(&submitted));
  ASSERT_EQ(submitted.submitted().results_size(), 2);
  EXPECT_EQ(submitted.submitted().results(0).status().code(), 0);
  EXPECT_GT(submitted.submitted().results(0).sequence(), 0);
  EXPECT_EQ(submitted.submitted().results(1).status().code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_THAT(submitted.submitted().results(1).status().message(), HasSubstr("'purple' is not one of the classes"));
  ASSERT_TRUE(stream->Read(&tasks));
  EXPECT_EQ(tasks.tasks().tasks_size(), 2) << "one by one they would be messages of their own";
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace fulcrum::testing
