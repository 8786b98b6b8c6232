// Campaigns with random budgets, overlaps and batches, and workers that skip, disagree, hold tasks and leave: every one
// ends, or says truthfully what it waits for. FULCRUM_RANDOM_CAMPAIGNS in the environment is the number of them.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using std::chrono::steady_clock;

constexpr int kAtATime = 10;
// Longer than leases and dispute times of the specifications.
constexpr std::chrono::milliseconds kPatience{2'600};
constexpr std::chrono::seconds kSettling{20};

/// How one worker behaves.
struct Habits {
  double wrong = 0;
  double skip = 0;
  double hold = 0;   ///< share of tasks that it takes and never answers
  int most = 1'000;  ///< answers after which it leaves
};

/// Votes of different worth: as many as an example needs or a fixed number, with known answers, and a limit below which
/// annotators are paused.
void UseCrowd(bool adaptive, bool gold, v1::LabelingSpec& labeling) {
  labeling.set_consensus(v1::CONSENSUS_DAWID_SKENE);
  labeling.clear_margin();
  if (adaptive) {
    labeling.set_overlap(0);
    labeling.clear_most_votes();
    labeling.set_max_votes(3);
    labeling.set_confidence(0.9);
  }
  if (gold) labeling.mutable_gold()->set_rate(0.3);
  labeling.mutable_quality()->set_pause_below(0.6);
  labeling.mutable_quality()->set_min_votes(5);
}

v1::CampaignSpec RandomSpec(const std::string& name, Random& random) {
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random.Below(values.size())));
  };
  v1::CampaignSpec spec = CloudSpec(name, 0);
  spec.mutable_pool()->set_sources(0, "priced.csv");
  spec.mutable_pool()->set_cost_column("price");
  spec.mutable_selection()->set_strategy(one_of({0, 1}) == 0 ? "random" : "dbalevs");
  spec.mutable_selection()->set_batch(one_of({1, 2, 3, 5, 8, 40}));
  v1::LabelingSpec& labeling = *spec.mutable_labeling();
  labeling.set_overlap(one_of({1, 1, 2, 3}));
  labeling.set_margin(1 + static_cast<int>(random.Below(static_cast<std::uint64_t>(labeling.overlap()))));
  labeling.set_most_votes(labeling.overlap() + one_of({0, 1, 2}));
  labeling.set_most_attempts(one_of({1, 2, 5}));
  if (one_of({0, 1, 2}) == 0) UseCrowd(one_of({0, 1}) == 0, one_of({0, 1}) == 0, labeling);
  if (one_of({0, 1, 2, 3}) == 0) spec.mutable_selection()->set_cost_budget(one_of({1, 2, 5, 30}));
  labeling.mutable_lease_time()->set_seconds(1);
  if (one_of({0, 1}) == 0) labeling.mutable_dispute_time()->set_seconds(1);
  if (one_of({0, 1, 2}) == 0) spec.mutable_advance()->mutable_hard_time()->set_seconds(1);
  if (one_of({0, 1, 2}) == 0) {
    spec.mutable_advance()->mutable_soft_time()->set_seconds(1);
    spec.mutable_advance()->set_soft_share(0.5);
  }
  // Some of the workers cost something of their own, or may not cost more than a little.
  for (int worker = 0; worker < 3; ++worker) {
    if (one_of({0, 1, 2}) != 0) continue;
    v1::AnnotatorTerms& terms = *labeling.add_annotators();
    terms.set_name(absl::StrCat("worker-", worker));
    terms.set_cost(0.25 * one_of({0, 1, 5, 12}));
    if (one_of({0, 1}) == 0) terms.set_budget(one_of({1, 4}));
  }
  v1::StopSpec& stop = *spec.mutable_stop();
  switch (one_of({0, 1, 2, 3})) {
    case 0:
      stop.set_labels(one_of({1, 2, 7, 12, 23}));
      break;
    case 1:
      stop.set_cost(0.25 * one_of({1, 3, 9, 20}));
      break;
    case 2:
      stop.set_rounds(one_of({1, 2, 4}));
      break;
    default:
      stop.set_labels(one_of({5, 30}));
      stop.set_rounds(3);
  }
  return spec;
}

Habits RandomHabits(Random& random) {
  const auto maybe = [&](double value) { return random.Below(3) == 0 ? value : 0; };
  Habits habits{.wrong = maybe(0.5), .skip = maybe(0.4), .hold = maybe(0.3)};
  if (random.Below(3) == 0) habits.most = static_cast<int>(random.Below(6));
  return habits;
}

/// Works until the campaign is over, its habits say so, or nothing came for long.
void Work(DaemonClient client, const std::string& campaign, const std::string& annotator, Habits habits,
          std::uint64_t seed) {
  Random random(seed);
  const auto chance = [&](double share) { return random.Uniform() < share; };
  auto last = steady_clock::now();
  for (int answers = 0; answers < habits.most && steady_clock::now() - last < kPatience;) {
    v1::AcquireTasksRequest wanted = TasksWanted(campaign, annotator, 1 + static_cast<int>(random.Below(3)));
    wanted.mutable_wait()->set_seconds(0);
    wanted.mutable_wait()->set_nanos(300'000'000);
    v1::AcquireTasksResponse tasks;
    const grpc::Status status = client.Acquire(wanted, &tasks);
    if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) return;  // paused by the rule
    ASSERT_TRUE(status.ok()) << status.error_message();
    if (tasks.campaign_over()) return;
    for (const v1::Task& task : tasks.tasks()) {
      last = steady_clock::now();
      if (chance(habits.hold)) continue;
      if (chance(habits.skip)) {
        v1::SkipTasksRequest skip;
        skip.set_campaign(campaign);
        skip.set_annotator(annotator);
        skip.set_request_id(NewRequestId());
        skip.add_skips()->mutable_lease()->set_lease_id(task.lease_id());
        skip.mutable_skips(0)->mutable_lease()->set_epoch(task.epoch());
        skip.mutable_skips(0)->set_reason(static_cast<v1::SkipReason>(1 + random.Below(3)));
        grpc::ClientContext context;
        client.Prepare(context);
        v1::SkipTasksResponse skipped;
        ASSERT_TRUE(client.labeling().SkipTasks(&context, skip, &skipped).ok());
        continue;
      }
      const std::string right = AnswerTo(task.item_id().substr(1));
      const std::string value = chance(habits.wrong) ? (right == "pos" ? "neg" : "pos") : right;
      client.SubmitOne(campaign, annotator, task, value);
      ++answers;
    }
  }
}

class RandomCampaignsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    std::string text = "id,price,f0,f1\n";
    for (int row = 0; row < 40; ++row) {
      absl::StrAppend(&text, "x", row, ",", row % 3 == 0 ? 0.75 : 0.25, ",", row % 2 == 0 ? -1 - row : 1 + row, ",",
                      row % 7, "\n");
    }
    folder_.Write("pools/priced.csv", text);
    StartDaemon();
  }

  /// The campaign when it is done, or when nothing but a worker or an administrator can change it.
  v1::Campaign Settled(DaemonClient& client, const std::string& name) {
    const auto until = steady_clock::now() + kSettling;
    v1::Campaign campaign = client.Get(name);
    while (steady_clock::now() < until && !IsSettled(campaign)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      campaign = client.Get(name);
    }
    return campaign;
  }
  static bool IsSettled(const v1::Campaign& campaign) {
    if (campaign.state() == v1::CAMPAIGN_STATE_DONE) return true;
    bool people_only = campaign.waiting_for_size() > 0;
    for (const v1::WaitingFor& reason : campaign.waiting_for()) {
      people_only = people_only && (reason.kind() == v1::WaitingFor::KIND_WORKER ||
                                    reason.kind() == v1::WaitingFor::KIND_ANOTHER_ANNOTATOR);
    }
    return people_only;
  }

  /// Runs one campaign and returns what is wrong with its end; empty if nothing is.
  std::string RunOne(int number) {
    Random random(static_cast<std::uint64_t>(number) + 1);
    const std::string name = absl::StrCat("random-", number);
    DaemonClient client = Client();
    const v1::CampaignSpec spec = RandomSpec(name, random);
    if (const grpc::Status created = client.Create(spec); !created.ok()) return created.error_message();
    if (spec.labeling().has_gold()) {
      v1::ImportLabelsRequest gold;
      gold.set_campaign(name);
      gold.set_source("gold");
      gold.set_request_id(NewRequestId());
      for (int row = 0; row < 6; ++row) {
        v1::ImportLabelsRequest::Entry& label = *gold.add_labels();
        label.set_item_id(absl::StrCat("x", row));
        label.set_value(AnswerTo(absl::StrCat(row)));
      }
      grpc::ClientContext context;
      client.Prepare(context);
      v1::ImportLabelsResponse imported;
      const grpc::Status status = client.campaigns().ImportLabels(&context, gold, &imported);
      if (!status.ok()) return status.error_message();
    }
    if (const grpc::Status started = client.Start(name); !started.ok()) return started.error_message();
    {
      std::vector<std::jthread> workers;
      const std::uint64_t count = 1 + random.Below(3);
      for (std::uint64_t i = 0; i < count; ++i) {
        workers.emplace_back(Work, Client(), name, absl::StrCat("worker-", i), RandomHabits(random), random.Next());
      }
    }
    const v1::Campaign campaign = Settled(client, name);
    const std::string text = absl::StrCat(campaign.ShortDebugString(), " of ", spec.ShortDebugString());
    if (!IsSettled(campaign)) return absl::StrCat("it neither ends nor waits for people: ", text);
    if (campaign.state() == v1::CAMPAIGN_STATE_DONE) {
      return campaign.state_reason().empty() ? absl::StrCat("it does not say why it ended: ", text) : "";
    }
    // It says that it waits for a worker: then a new one must get a task.
    v1::AcquireTasksResponse tasks;
    const grpc::Status status = client.Acquire(TasksWanted(name, "newcomer", 1), &tasks);
    if (!status.ok()) return status.error_message();
    return tasks.tasks_size() == 1 || tasks.campaign_over() ? "" : absl::StrCat("a new worker gets no task: ", text);
  }
};

TEST_F(RandomCampaignsTest, EveryOneEndsOrSaysWhatItWaitsFor) {
  const char* const wanted = std::getenv("FULCRUM_RANDOM_CAMPAIGNS");
  const int campaigns = wanted == nullptr ? 20 : std::atoi(wanted);
  int next = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  {
    std::vector<std::jthread> runners;
    for (int i = 0; i < kAtATime; ++i) {
      runners.emplace_back([&] {
        while (true) {
          int number = 0;
          {
            const std::scoped_lock lock(mutex);
            if (next >= campaigns) return;
            number = next++;
          }
          const std::string failure = RunOne(number);
          const std::scoped_lock lock(mutex);
          if (!failure.empty()) failures.push_back(absl::StrCat(number, ": ", failure));
        }
      });
    }
  }
  EXPECT_THAT(failures, ::testing::IsEmpty());
}

}  // namespace
}  // namespace fulcrum::testing
