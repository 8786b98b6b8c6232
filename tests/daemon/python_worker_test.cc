// A Python worker that depends only on the published .proto files labels a whole campaign.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/process.h"

namespace fulcrum::testing {
namespace {

constexpr char kPython[] = "/usr/bin/python3";  // the system Python, which has grpcio

class PythonWorkerTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    if (RunProcess({kPython, "-c", "import grpc, google.protobuf"}).exit_code != 0) {
      GTEST_SKIP() << kPython << " has no grpc: install python3-grpcio";
    }
    std::filesystem::create_directories(folder_.File("worker"));
    std::filesystem::copy(absl::StrCat(FULCRUM_SOURCE, "/deploy/examples/python/worker.py"), folder_.File("worker"));
    const ProcessResult made = RunProcess(
        {FULCRUM_PROTOC, absl::StrCat("-I", FULCRUM_SOURCE, "/proto"),
         absl::StrCat("--python_out=", folder_.File("worker")), absl::StrCat("--grpc_out=", folder_.File("worker")),
         absl::StrCat("--plugin=protoc-gen-grpc=", FULCRUM_GRPC_PYTHON_PLUGIN), "fulcrum/v1/labeling_service.proto",
         "fulcrum/v1/campaign.proto", "fulcrum/v1/campaign_spec.proto"});
    ASSERT_EQ(made.exit_code, 0) << made.standard_error;
  }
  ProcessResult Work(const std::string& campaign, const std::string& answers) const {
    return RunProcess({kPython, folder_.File("worker/worker.py"), "--server",
                       absl::StrCat("127.0.0.1:", daemon_->port()), "--campaign", campaign, "--answers", answers,
                       "--tasks", "4"});
  }
};

TEST_F(PythonWorkerTest, LabelsAWholeCampaign) {
  std::string answers = "id,label";
  for (int row = 0; row < 200; ++row) absl::StrAppend(&answers, "\n", row, ",", AnswerTo(absl::StrCat(row)));
  StartDaemon();
  DaemonClient client = Client();
  for (const char* name : {"python", "reference"}) {
    ASSERT_TRUE(client.Create(CloudSpec(name, 4)).ok());
    ASSERT_TRUE(client.Start(name).ok());
  }
  const ProcessResult worked = Work("python", folder_.Write("answers.csv", answers));
  EXPECT_EQ(worked.exit_code, 0) << worked.standard_error;
  EXPECT_EQ(worked.standard_output, "24 labels\n");
  WorkUntilOver(client, "reference", "ada");
  EXPECT_EQ(client.Get("python").state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_EQ(client.Export("python").size(), 24u);
  EXPECT_EQ(client.ExportedBatches("python"), client.ExportedBatches("reference"));
}

TEST_F(PythonWorkerTest, SaysWhatTheServerSays) {
  StartDaemon();
  const ProcessResult worked = Work("nowhere", folder_.Write("answers.csv", "id,label\n"));
  EXPECT_NE(worked.exit_code, 0);
  EXPECT_THAT(worked.standard_error, ::testing::HasSubstr("no campaign 'nowhere'"));
}

}  // namespace
}  // namespace fulcrum::testing
