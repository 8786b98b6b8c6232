// Annotators of different quality over gRPC: their estimates, pauses, likely label errors, and what they may cost.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/annotator_service.grpc.pb.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AnnotatorServiceTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(Client());
    stub_ = v1::AnnotatorService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", daemon_->port()), grpc::InsecureChannelCredentials()));
  }

  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::AnnotatorService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    Request request, Response* response) {
    grpc::ClientContext context;
    client_->Prepare(context);
    request.set_campaign("clouds");
    return ((*stub_).*method)(&context, request, response);
  }

  v1::ListAnnotatorsResponse List() {
    v1::ListAnnotatorsResponse response;
    const grpc::Status status =
        Call(&v1::AnnotatorService::Stub::ListAnnotators, v1::ListAnnotatorsRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Pause(const std::string& annotator, const std::string& reason) {
    v1::PauseAnnotatorRequest request;
    request.set_annotator(annotator);
    request.set_reason(reason);
    request.set_request_id(NewRequestId());
    v1::PauseAnnotatorResponse response;
    return Call(&v1::AnnotatorService::Stub::PauseAnnotator, request, &response);
  }
  grpc::Status Resume(const std::string& annotator) {
    v1::ResumeAnnotatorRequest request;
    request.set_annotator(annotator);
    request.set_request_id(NewRequestId());
    v1::ResumeAnnotatorResponse response;
    return Call(&v1::AnnotatorService::Stub::ResumeAnnotator, request, &response);
  }

  static std::string Wrong(const std::string& item) { return AnswerTo(item) == "neg" ? "pos" : "neg"; }

  /// Every annotator answers what it is offered, in turns, until nobody is offered anything or the campaign is over.
  /// The last of them is always wrong.
  void AnswerInTurns(const std::vector<std::string>& annotators) {
    for (std::size_t idle = 0, turn = 0; idle < 3 * annotators.size(); ++turn) {
      const std::string& who = annotators[turn % annotators.size()];
      v1::AcquireTasksRequest acquire = TasksWanted("clouds", who, 1);
      acquire.mutable_wait()->set_nanos(50'000'000);
      v1::AcquireTasksResponse tasks;
      const grpc::Status status = client_->Acquire(acquire, &tasks);
      ASSERT_TRUE(status.ok()) << status.error_message();
      if (tasks.campaign_over()) return;
      idle = tasks.tasks_size() == 0 ? idle + 1 : 0;
      for (const v1::Task& task : tasks.tasks()) {
        const bool liar = who == annotators.back();
        ASSERT_EQ(client_->SubmitOne("clouds", who, task, liar ? Wrong(task.item_id()) : AnswerTo(task.item_id())), 0);
      }
    }
  }

  std::unique_ptr<DaemonClient> client_;
  std::unique_ptr<v1::AnnotatorService::Stub> stub_;
};

v1::CampaignSpec CrowdSpec(int rounds) {
  v1::CampaignSpec spec = CloudSpec("clouds", rounds);
  spec.mutable_selection()->set_batch(15);
  spec.mutable_labeling()->set_consensus(v1::CONSENSUS_DAWID_SKENE);
  spec.mutable_labeling()->set_overlap(0);
  return spec;
}

TEST_F(AnnotatorServiceTest, QualityIsListedAndAnnotatorsArePausedAndResumed) {
  ASSERT_TRUE(client_->Create(CrowdSpec(2)).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  AnswerInTurns({"ada", "bob", "cy", "liar"});
  const v1::ListAnnotatorsResponse listed = List();
  EXPECT_THAT(listed.classes(), ElementsAre("neg", "pos"));
  ASSERT_EQ(listed.annotators_size(), 4);
  EXPECT_EQ(listed.annotators(3).name(), "liar");
  std::int64_t labels = 0;
  for (const v1::Annotator& annotator : listed.annotators()) {
    labels += annotator.labels();
    EXPECT_EQ(annotator.confusion_size(), 4);
    EXPECT_LE(annotator.accuracy_low(), annotator.accuracy());
    EXPECT_GE(annotator.accuracy_high(), annotator.accuracy());
    EXPECT_EQ(annotator.skips(), 0);
    EXPECT_TRUE(annotator.paused_reason().empty());
    if (annotator.name() != "liar") {
      EXPECT_GT(annotator.accuracy(), listed.annotators(3).accuracy() + 0.3);
    }
  }
  EXPECT_EQ(labels, static_cast<std::int64_t>(client_->Export("clouds").size()));
  EXPECT_EQ(labels, listed.votes());

  EXPECT_EQ(Pause("liar", "every\nanswer is wrong").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Pause("", "nobody").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(Pause("liar", "every answer is wrong").ok());
  EXPECT_EQ(List().annotators(3).paused_reason(), "every answer is wrong");
  ASSERT_TRUE(Resume("liar").ok());
  EXPECT_EQ(List().annotators(3).paused_reason(), "");
  EXPECT_EQ(Resume("liar").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(AnnotatorServiceTest, APausedAnnotatorIsToldWhy) {
  ASSERT_TRUE(client_->Create(CrowdSpec(2)).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  const v1::Task task = client_->AcquireOne("clouds", "liar");
  ASSERT_TRUE(Pause("liar", "reads no question").ok());
  v1::AcquireTasksResponse none;
  const grpc::Status refused = client_->Acquire(TasksWanted("clouds", "liar", 1), &none);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("reads no question"));
  EXPECT_EQ(client_->SubmitOne("clouds", "liar", task, "neg"), 0) << "what it has it may still answer";
}

TEST_F(AnnotatorServiceTest, WrongLabelsAreAmongTheLikelyErrors) {
  v1::CampaignSpec spec = CloudSpec("clouds", 2);
  spec.mutable_selection()->set_batch(40);
  ASSERT_TRUE(client_->Create(spec).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  v1::ListLabelErrorsResponse errors;
  EXPECT_EQ(Call(&v1::AnnotatorService::Stub::ListLabelErrors, v1::ListLabelErrorsRequest(), &errors).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION)
      << "there are no labels";
  std::set<std::string> wrong;
  for (int i = 0; i < 80; ++i) {
    const v1::Task task = client_->AcquireOne("clouds", "ada");
    const bool lie = i % 16 == 5;
    if (lie) wrong.insert(task.item_id());
    ASSERT_EQ(client_->SubmitOne("clouds", "ada", task, lie ? Wrong(task.item_id()) : AnswerTo(task.item_id())), 0);
  }
  const grpc::Status status = Call(&v1::AnnotatorService::Stub::ListLabelErrors, v1::ListLabelErrorsRequest(), &errors);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(errors.labels(), 80);
  std::set<std::string> found;
  for (const v1::LabelError& error : errors.errors()) {
    EXPECT_NE(error.label(), error.suggested());
    found.insert(error.item_id());
  }
  // Those between the clouds are not unlikely enough.
  const auto is_found = [&](const std::string& item) { return found.contains(item); };
  EXPECT_GE(std::ranges::count_if(wrong, is_found), 3) << ::testing::PrintToString(wrong);
  EXPECT_LT(found.size(), 20u);
}

TEST_F(AnnotatorServiceTest, ALabelThatAnAdministratorConfirmsIsNotListedAgain) {
  v1::CampaignSpec spec = CloudSpec("clouds", 2);
  spec.mutable_selection()->set_batch(40);
  ASSERT_TRUE(client_->Create(spec).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  for (int i = 0; i < 80; ++i) {
    const v1::Task task = client_->AcquireOne("clouds", "ada");
    const bool lie = i % 16 == 5;
    ASSERT_EQ(client_->SubmitOne("clouds", "ada", task, lie ? Wrong(task.item_id()) : AnswerTo(task.item_id())), 0);
  }
  const auto listed = [&] {
    v1::ListLabelErrorsResponse errors;
    const grpc::Status status =
        Call(&v1::AnnotatorService::Stub::ListLabelErrors, v1::ListLabelErrorsRequest(), &errors);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return errors;
  };
  const v1::ListLabelErrorsResponse before = listed();
  ASSERT_GT(before.errors_size(), 0);
  std::map<std::string, std::string> suggested;
  for (const v1::LabelError& error : before.errors()) suggested[error.item_id()] = error.suggested();
  for (const v1::ExportedLabel& label : client_->Export("clouds", /*errors=*/true)) {
    EXPECT_EQ(label.suggested(), suggested[label.item_id()]) << label.item_id();
  }
  for (const v1::ExportedLabel& label : client_->Export("clouds")) EXPECT_EQ(label.suggested(), "");
  v1::ListLabelErrorsRequest one;
  one.set_page_size(1);
  v1::ListLabelErrorsResponse first;
  ASSERT_TRUE(Call(&v1::AnnotatorService::Stub::ListLabelErrors, one, &first).ok());
  ASSERT_EQ(first.errors_size(), 1);
  EXPECT_EQ(first.total_size(), before.total_size());
  EXPECT_EQ(first.errors(0).item_id(), before.errors(0).item_id());
  v1::ResolveItemRequest request;
  request.set_campaign("clouds");
  request.set_item_id(before.errors(0).item_id());
  request.set_value(before.errors(0).label());
  request.set_request_id(NewRequestId());
  grpc::ClientContext context;
  client_->Prepare(context);
  v1::ResolveItemResponse response;
  ASSERT_TRUE(client_->items().ResolveItem(&context, request, &response).ok());
  const v1::ListLabelErrorsResponse after = listed();
  EXPECT_EQ(after.labels(), before.labels()) << "it is trained on as before";
  for (const v1::LabelError& error : after.errors()) EXPECT_NE(error.item_id(), before.errors(0).item_id());
}

TEST_F(AnnotatorServiceTest, VotesOfARoundThatEndsEarlyAreNotLost) {
  v1::CampaignSpec spec = CrowdSpec(30);
  spec.mutable_selection()->set_batch(6);
  spec.mutable_stop()->set_labels(40);
  ASSERT_TRUE(client_->Create(spec).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  AnswerInTurns({"ada", "bob", "cy", "dan", "liar"});
  ASSERT_EQ(client_->Get("clouds").state(), v1::CAMPAIGN_STATE_DONE);
  // Every example with votes has a label, unless two classes are equally probable.
  std::map<std::string, std::set<std::string>> votes;
  std::set<std::string> decided;
  for (const v1::ExportedLabel& label : client_->Export("clouds")) {
    votes[label.item_id()].insert(label.value());
    if (!label.decision().empty()) decided.insert(label.item_id());
  }
  EXPECT_GE(votes.size(), 7u);
  for (const auto& [item, values] : votes) {
    EXPECT_TRUE(decided.contains(item) || values.size() > 1) << item;
  }
}

TEST_F(AnnotatorServiceTest, ExportedLabelsHaveTheirConfidence) {
  ASSERT_TRUE(client_->Create(CrowdSpec(1)).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  AnswerInTurns({"ada", "bob", "cy", "liar"});
  std::size_t sure = 0;
  for (const v1::ExportedLabel& label : client_->Export("clouds")) {
    EXPECT_EQ(label.has_confidence(), !label.decision().empty());
    EXPECT_TRUE(label.has_annotator_accuracy());
    sure += label.confidence() >= 0.9 ? 1 : 0;
  }
  EXPECT_GT(sure, 15u);
}

TEST_F(AnnotatorServiceTest, AnAnnotatorGetsNoTasksOnceItsBudgetIsSpent) {
  v1::CampaignSpec spec = CloudSpec("clouds", 2);
  v1::AnnotatorTerms& terms = *spec.mutable_labeling()->add_annotators();
  terms.set_name("ada");
  terms.set_cost(2);
  terms.set_budget(5);
  ASSERT_TRUE(client_->Create(spec).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  for (int i = 0; i < 2; ++i) {
    const v1::Task task = client_->AcquireOne("clouds", "ada");
    ASSERT_EQ(client_->SubmitOne("clouds", "ada", task, AnswerTo(task.item_id())), 0);
  }
  v1::AcquireTasksRequest acquire = TasksWanted("clouds", "ada", 1);
  acquire.mutable_wait()->set_nanos(1000);
  v1::AcquireTasksResponse tasks;
  ASSERT_TRUE(client_->Acquire(acquire, &tasks).ok());
  EXPECT_EQ(tasks.tasks_size(), 0) << "1 of 5 is left, and an answer costs 2";
  EXPECT_EQ(client_->Get("clouds").cost(), 4);
  v1::CampaignSpec twice = spec;
  twice.set_name("twice");
  *twice.mutable_labeling()->add_annotators() = terms;
  EXPECT_THAT(client_->Create(twice).error_message(), HasSubstr("'ada' is listed twice"));
  WorkUntilOver(*client_, "clouds", "bob");
  EXPECT_EQ(client_->Get("clouds").cost(), 4);
}

TEST_F(AnnotatorServiceTest, AWorkerWhoseBudgetIsSpentIsToldSo) {
  v1::CampaignSpec spec = CloudSpec("clouds", 2);
  spec.mutable_selection()->set_batch(5);
  v1::AnnotatorTerms& terms = *spec.mutable_labeling()->add_annotators();
  terms.set_name("ada");
  terms.set_cost(3);
  terms.set_budget(7);
  ASSERT_TRUE(client_->Create(spec).ok());
  ASSERT_TRUE(client_->Start("clouds").ok());
  WorkUntilOver(*client_, "clouds", "ada", 2);
  v1::AcquireTasksRequest acquire = TasksWanted("clouds", "ada", 1);
  acquire.mutable_wait()->set_seconds(0);
  v1::AcquireTasksResponse tasks;
  ASSERT_TRUE(client_->Acquire(acquire, &tasks).ok());
  EXPECT_EQ(tasks.tasks_size(), 0);
  ASSERT_EQ(tasks.waiting_for_size(), 1) << tasks.ShortDebugString();
  EXPECT_EQ(tasks.waiting_for(0).kind(), v1::WaitingFor::KIND_BUDGET);
  EXPECT_THAT(tasks.waiting_for(0).text(), HasSubstr("the budget of annotator 'ada' pays for no other task: 1 of 7"));
  acquire = TasksWanted("clouds", "bob", 1);
  ASSERT_TRUE(client_->Acquire(acquire, &tasks).ok());
  EXPECT_EQ(tasks.tasks_size(), 1);
}

}  // namespace
}  // namespace fulcrum::testing
