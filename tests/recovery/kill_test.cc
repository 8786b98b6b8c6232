// Kills a process that works on a campaign at random points, repeatedly, and checks its guarantees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "storage/campaign_store.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/label_rules.h"
#include "tests/recovery/outside_ledger.h"
#include "tests/recovery/victim.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::testing {
namespace {

using ::testing::IsEmpty;

constexpr int kKillsPerCampaign = 50;

/// A kill does not lose data in the page cache, so a folder in memory gives the same results as one on disk, without
/// waiting for the disk.
std::string FolderForKills() {
  const std::string memory = "/dev/shm";
  const bool usable = access(memory.c_str(), W_OK) == 0 && std::filesystem::space(memory).available > (64 << 20);
  return usable ? memory : std::filesystem::temp_directory_path().string();
}

class KillTest : public ::testing::Test {
 protected:
  std::string Folder() const { return directory_->File("campaign"); }

  /// Every second one estimates its annotators, asks about known answers, and pauses.
  void StartCampaign(bool crowd) {
    directory_ = std::make_unique<TemporaryDirectory>(FolderForKills());
    ledger_ = {};
    storage::CampaignSettings settings;
    settings.lease_time = std::chrono::minutes(5);
    settings.overlap = 2;
    settings.most_votes = 3;
    settings.policy = {.soft_time = std::chrono::minutes(10), .soft_share = 0.3};
    if (crowd) {
      settings.consensus = storage::CampaignSettings::Consensus::kDawidSkene;
      settings.classes = {"cat", "dog"};
      settings.overlap = 1;
      settings.confidence = 0.9;
      settings.classifier_weight = 0.5;
      settings.gold_rate = 0.2;
      settings.pause_below = 0.7;
      settings.annotators["w1"] = {.cost = 0.25, .budget = 1000};
    }
    const auto store = storage::CampaignStore::Create(Folder(), settings, {.clock = &clock_});
    ASSERT_TRUE(store.ok()) << store.status();
    storage::ImportRequest gold{.source = storage::kGoldSource, .request_id = "gold"};
    for (int i = 0; i < 30 && crowd; ++i) gold.labels.push_back({absl::StrCat("g", i), i % 2 == 0 ? "cat" : "dog", 1});
    if (crowd) {
      ASSERT_TRUE((*store)->Run(storage::ImportLabels, gold).ok());
    }
  }

  /// Starts the victim, and kills it after `entries` from outside or inside its `operation`-th write or sync. The
  /// ledger has what it sent until then.
  void RunAndKill(int run, std::uint64_t seed, std::int64_t entries, std::int64_t operation) {
    int channel[2];
    ASSERT_EQ(pipe(channel), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(channel[0]);
      FaultVfs vfs;
      if (operation > 0) vfs.Arm(DiskFault::kKill, operation);
      const std::string end = RunVictim({.folder = Folder(), .seed = seed, .run = run, .pipe = channel[1]}, ledger_);
      std::fprintf(stderr, "the victim ended by itself: %s\n", end.c_str());
      _exit(1);
    }
    close(channel[1]);
    Entry entry;
    for (std::int64_t count = 0; read(channel[0], &entry, sizeof(entry)) == sizeof(entry); ++count) {
      ledger_.Add(entry);
      if (operation == 0 && count == entries) kill(child, SIGKILL);
    }
    close(channel[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the victim was not killed, status " << status;
  }

  void CheckDerivedState() {
    const auto report = storage::CheckCampaign(Folder());
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_THAT(report->problems, IsEmpty());
  }

  // Never moved: the victim has its own clock, and the time of the store never goes back before the end of its log.
  const ManualClock clock_;
  std::unique_ptr<TemporaryDirectory> directory_;
  OutsideLedger ledger_;
};

/// ./dev test recovery sets the number.
int Kills() {
  const char* const text = std::getenv("FULCRUM_RECOVERY_KILLS");
  return text == nullptr ? 200 : std::atoi(text);
}

TEST_F(KillTest, WhatWasAnsweredSurvivesAnyKill) {
  const int kills = Kills();
  Random random(20261116);
  std::size_t answers = 0;
  std::int64_t late = 0;
  std::int64_t expired = 0;
  for (int run = 0; run < kills; ++run) {
    if (run % kKillsPerCampaign == 0) {
      ASSERT_NO_FATAL_FAILURE(StartCampaign(run / kKillsPerCampaign % 2 == 1));
    }
    const std::uint64_t seed = random.Next();
    const auto entries = static_cast<std::int64_t>(random.Below(40));
    const std::int64_t operation = run % 2 == 0 ? 0 : 1 + static_cast<std::int64_t>(random.Below(120));
    ASSERT_NO_FATAL_FAILURE(RunAndKill(run, seed, entries, operation));
    ASSERT_THAT(ledger_.Check(Folder()), IsEmpty()) << "after kill " << run << ", seed " << seed;
    ASSERT_NO_FATAL_FAILURE(CheckDerivedState()) << "after kill " << run << ", seed " << seed;
    if (run % kKillsPerCampaign != kKillsPerCampaign - 1 && run != kills - 1) continue;
    answers += ledger_.answers().size();
    const auto store = storage::CampaignStore::Open(Folder(), {.clock = &clock_});
    ASSERT_TRUE(store.ok()) << store.status();
    late += (*store)->status()->totals.late_labels;
    expired += (*store)->status()->totals.expired_leases;
    ASSERT_TRUE((*store)->WriteCheckpoint().ok());
    ASSERT_NO_FATAL_FAILURE(CheckDerivedState());
  }
  // Ensures that the test covered enough.
  EXPECT_GT(answers, 5u * static_cast<unsigned>(kills));
  EXPECT_GT(late, kills / 20);
  EXPECT_GT(expired, kills / 2);
  // For docs/comparison.md.
  std::printf("%d kills, %zu acknowledged answers, none lost\n", kills, answers);
}

}  // namespace
}  // namespace fulcrum::testing
