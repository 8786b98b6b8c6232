// Concurrent campaigns do not wait for each other unless memory is insufficient for both.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using SharingTest = DaemonTest;

// Memory for one round of a campaign with the default limit, and for a few pools of 200 rows.
constexpr std::size_t kOneRound = std::size_t{32} << 20;
constexpr std::size_t kPoolBytes = 200 * 4 * sizeof(double);

/// A campaign that keeps one copy of its pool: a tuned one has the original features too.
v1::CampaignSpec FixedSpec(const std::string& name) {
  v1::CampaignSpec spec = CloudSpec(name, 2);
  spec.mutable_classifier()->set_tune(v1::TUNING_OFF);
  return spec;
}

/// Returns when the campaign is in `stage` of a round.
void WaitForStage(DaemonClient& client, const std::string& campaign, v1::Stage stage) {
  grpc::ClientContext context;
  client.Prepare(context);
  v1::WatchCampaignRequest request;
  request.set_campaign(campaign);
  const auto stream = client.campaigns().WatchCampaign(&context, request);
  ASSERT_TRUE(client.Start(campaign).ok());
  v1::WatchCampaignResponse response;
  while (stream->Read(&response) && response.event().stage().stage() != stage) {
  }
  EXPECT_EQ(response.event().stage().stage(), stage);
  context.TryCancel();
}

TEST_F(SharingTest, ASmallCampaignRunsToItsEndInsideARoundOfALargeOne) {
  // Full decompositions of a matrix of 4,000 rows, one more than there are cores, take longer than the whole small
  // campaign. If rounds ran one at a time, or used all threads, it would have to wait for them.
  folder_.Write("pools/large.csv", CloudsText(4000));
  StartDaemon();
  DaemonClient client = Client();
  const std::vector<std::string> large = {"large-1", "large-2", "large-3"};
  for (const std::string& name : large) {
    v1::CampaignSpec spec = CloudSpec(name, 2);
    spec.mutable_pool()->set_sources(0, "large.csv");
    spec.mutable_selection()->set_strategy("top-lev");  // scores the pool without labels
    spec.mutable_selection()->set_engine(v1::ENGINE_DENSE);
    const grpc::Status created = client.Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    WaitForStage(client, name, v1::STAGE_SCORE);
  }
  ASSERT_TRUE(client.Create(CloudSpec("small", 4)).ok());
  ASSERT_TRUE(client.Start("small").ok());
  EXPECT_EQ(WorkUntilOver(client, "small", "ada").size(), 24u);
  EXPECT_EQ(client.Get("small").state(), v1::CAMPAIGN_STATE_DONE);
  for (const std::string& name : large) {
    EXPECT_EQ(client.Get(name).state(), v1::CAMPAIGN_STATE_RUNNING) << name;
    EXPECT_EQ(client.Get(name).round(), 0) << name;
  }
}

TEST_F(SharingTest, ACampaignThatDoesNotFitTheMemoryBudgetIsRefusedUntilThereIsRoom) {
  pipeline::DaemonOptions options = Options();
  options.memory_budget = kOneRound + kPoolBytes + kPoolBytes / 2;
  StartDaemon(options);
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(FixedSpec("first")).ok());
  const grpc::Status refused = client.Create(FixedSpec("second"));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_message().find("memory_budget is 32 MB"), std::string::npos) << refused.error_message();
  ASSERT_TRUE(client.Delete("first").ok());
  EXPECT_TRUE(client.Create(FixedSpec("second")).ok());
}

TEST_F(SharingTest, CampaignsWhoseRoundsDoNotFitTogetherTakeTurnsAndSelectWhatEachWouldAlone) {
  pipeline::DaemonOptions options = Options();
  options.memory_budget = kOneRound + 10 * kPoolBytes;
  StartDaemon(options);
  DaemonClient client = Client();
  for (const char* name : {"alone", "first", "second"}) ASSERT_TRUE(client.Create(CloudSpec(name, 6)).ok());
  EXPECT_EQ(client.Get("first").spec().selection().memory_mib(), 32) << "what was granted is part of the campaign";
  ASSERT_TRUE(client.Start("alone").ok());
  WorkUntilOver(client, "alone", "ada");
  {
    std::vector<std::jthread> workers;
    for (const char* name : {"first", "second"}) {
      ASSERT_TRUE(client.Start(name).ok());
      workers.emplace_back([this, name] {
        DaemonClient worker = Client();
        WorkUntilOver(worker, name, "ada");
      });
    }
  }
  for (const char* name : {"first", "second"}) {
    EXPECT_EQ(client.Get(name).state(), v1::CAMPAIGN_STATE_DONE);
    EXPECT_EQ(client.ExportedBatches(name), client.ExportedBatches("alone")) << name;
  }
}

TEST_F(SharingTest, AThousandCampaignsInOneDaemon) {
  constexpr int kCampaigns = 1000;
  const auto name_of = [](int i) { return absl::StrCat("small-", i); };
  // Made by the same code as those of a daemon, on a few threads.
  std::filesystem::create_directories(folder_.File("data/campaigns"));
  const auto make = [&](int first) {
    for (int i = first; i < kCampaigns; i += 8) {
      const auto plan = pipeline::PlanCampaign(FixedSpec(name_of(i)));
      ASSERT_TRUE(plan.ok()) << plan.status();
      const absl::Status made = pipeline::MakeCampaignFolder(folder_.File("data/campaigns/" + name_of(i)), *plan,
                                                             {.root = folder_.File("pools")}, {});
      ASSERT_TRUE(made.ok()) << made;
    }
  };
  {
    std::vector<std::jthread> makers;
    for (int first = 0; first < 8; ++first) makers.emplace_back(make, first);
  }
  const auto begun = std::chrono::steady_clock::now();
  StartDaemon();
  DaemonClient client = Client();
  v1::ListCampaignsRequest request;
  request.set_page_size(kCampaigns);
  v1::ListCampaignsResponse response;
  grpc::ClientContext context;
  client.Prepare(context);
  ASSERT_TRUE(client.campaigns().ListCampaigns(&context, request, &response).ok());
  RecordProperty(
      "ready_ms",
      std::to_string(
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun).count()));
  EXPECT_EQ(response.campaigns_size(), kCampaigns);
  for (const v1::Campaign& campaign : response.campaigns()) {
    EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_CREATED) << campaign.name() << ": " << campaign.state_reason();
  }
  // They work, too.
  for (const int i : {0, kCampaigns / 2, kCampaigns - 1}) {
    ASSERT_TRUE(client.Start(name_of(i)).ok());
    EXPECT_EQ(WorkUntilOver(client, name_of(i), "ada").size(), 12u);
  }
}

}  // namespace
}  // namespace fulcrum::testing
