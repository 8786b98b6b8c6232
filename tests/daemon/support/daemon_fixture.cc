#include "tests/daemon/support/daemon_fixture.h"

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/core/random.h"

namespace fulcrum::testing {
namespace {

bool MayPass(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

}  // namespace

std::string CloudsText(std::size_t rows) {
  Random random(7);
  std::string text = "f0,f1,f2,f3\n";
  for (std::size_t row = 0; row < rows; ++row) {
    const double centre = row % 2 == 0 ? -0.7 : 0.7;
    for (int i = 0; i < 4; ++i) absl::StrAppend(&text, i == 0 ? "" : ",", centre + random.Normal());
    text += "\n";
  }
  return text;
}

std::string NamedCloudsText(std::size_t rows) {
  const std::vector<std::string> lines = absl::StrSplit(CloudsText(rows), '\n', absl::SkipEmpty());
  std::string text = absl::StrCat("id,", lines[0], "\n");
  for (std::size_t row = 0; row < rows; ++row) absl::StrAppend(&text, row, ",", lines[row + 1], "\n");
  return text;
}

std::string AnswerTo(const std::string& item) {
  std::int64_t row = 0;
  return absl::SimpleAtoi(item, &row) && row % 2 == 0 ? "neg" : "pos";
}

v1::CampaignSpec CloudSpec(const std::string& name, int rounds) {
  v1::CampaignSpec spec;
  spec.set_name(name);
  spec.mutable_pool()->add_sources("clouds.csv");
  spec.add_classes("neg");
  spec.add_classes("pos");
  spec.mutable_selection()->set_strategy("dbalevs");
  spec.mutable_selection()->set_batch(6);
  spec.mutable_stop()->set_rounds(rounds);
  spec.set_seed(3);
  return spec;
}

std::set<std::int64_t> WorkUntilOver(DaemonClient& client, const std::string& campaign, const std::string& annotator,
                                     std::size_t most_labels) {
  std::set<std::int64_t> acknowledged;
  while (acknowledged.size() < most_labels) {
    const v1::AcquireTasksRequest acquire = TasksWanted(campaign, annotator, 2);
    v1::AcquireTasksResponse tasks;
    grpc::Status status;
    while (MayPass(status = client.Acquire(acquire, &tasks))) {
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (!status.ok() || tasks.campaign_over()) break;
    if (tasks.tasks_size() == 0) continue;
    v1::SubmitLabelsRequest submit;
    submit.set_campaign(campaign);
    submit.set_annotator(annotator);
    submit.set_request_id(NewRequestId());
    for (const v1::Task& task : tasks.tasks()) AddAnswer(task, AnswerTo(task.item_id()), submit);
    v1::SubmitLabelsResponse results;
    while (MayPass(status = client.Submit(submit, &results))) {
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
    for (const auto& result : results.results()) {
      EXPECT_EQ(result.status().code(), 0) << result.status().message();
      if (result.status().code() == 0) acknowledged.insert(result.sequence());
    }
  }
  return acknowledged;
}

void DaemonTest::SetUp() {
  std::filesystem::create_directories(folder_.File("pools"));
  folder_.Write("pools/clouds.csv", CloudsText(200));
  folder_.Write("pools/named.csv", NamedCloudsText(200));
}

pipeline::DaemonOptions DaemonTest::Options() const {
  pipeline::DaemonOptions options;
  options.data_folder = folder_.File("data");
  options.pool_root = folder_.File("pools");
  options.ask_for_tokens = false;
  return options;
}

void DaemonTest::StartDaemon(const pipeline::DaemonOptions& options) {
  auto daemon = pipeline::Daemon::Start(options);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  daemon_ = *std::move(daemon);
}

void DaemonTest::StopDaemon() {
  const absl::Status status = daemon_->Stop();
  EXPECT_TRUE(status.ok()) << status;
  daemon_.reset();
}

}  // namespace fulcrum::testing
