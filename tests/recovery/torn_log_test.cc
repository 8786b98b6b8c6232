// A write-ahead log whose end never reached the disk, or reached it damaged, as after a power failure of a disk that
// does not sync: everything before it stays, and fsck says what is missing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "storage/campaign_store.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/round_rules.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::testing {
namespace {

using storage::CampaignStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kCommits = 30;

/// Lengths of the log after each commit, as the child that was killed reported them.
struct Killed {
  std::vector<std::uintmax_t> log_bytes;
};

class TornLogTest : public ::testing::Test {
 protected:
  std::string Folder() const { return directory_.File("campaign"); }
  std::string Wal() const { return Folder() + "/campaign.db-wal"; }

  [[noreturn]] void WorkUntilKilled(int pipe) const {
    auto store = CampaignStore::Create(Folder(), {});
    for (int i = 1; store.ok() && i <= kCommits; ++i) {
      const storage::Life life = i % 2 == 0 ? storage::Life::kPaused : storage::Life::kRunning;
      if (!(*store)->Run(storage::ChangeLife, {.life = life, .reason = absl::StrCat(i)}).ok()) break;
      const std::uintmax_t bytes = std::filesystem::file_size(Wal());
      if (write(pipe, &bytes, sizeof(bytes)) != sizeof(bytes)) break;
    }
    kill(getpid(), SIGKILL);
    _exit(1);
  }

  Killed MakeKilledCampaign() const {
    int channel[2];
    EXPECT_EQ(pipe(channel), 0);
    const pid_t child = fork();
    if (child == 0) WorkUntilKilled(channel[1]);
    close(channel[1]);
    Killed killed;
    std::uintmax_t bytes = 0;
    while (read(channel[0], &bytes, sizeof(bytes)) == sizeof(bytes)) killed.log_bytes.push_back(bytes);
    close(channel[0]);
    waitpid(child, nullptr, 0);
    return killed;
  }

  /// Opens the campaign and returns the number of the last commit that is in it.
  int LastCommit() const {
    const auto store = CampaignStore::Open(Folder());
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return -1;
    const std::string reason = (*store)->status()->life_reason;
    return reason.empty() ? 0 : std::stoi(reason);
  }

  /// The campaign is sound, except that fsck says how much is missing of what was promised.
  void ExpectOnlyTheLoss(bool lost) const {
    const auto report = storage::CheckCampaign(Folder());
    ASSERT_TRUE(report.ok()) << report.status();
    if (lost) {
      EXPECT_THAT(report->problems, ElementsAre(HasSubstr("events are missing")));
    } else {
      EXPECT_THAT(report->problems, IsEmpty());
    }
  }

  void CopyTo(const std::string& to) const {
    std::filesystem::remove_all(to);
    std::filesystem::copy(Folder(), to, std::filesystem::copy_options::recursive);
  }

  const TemporaryDirectory directory_;
};

TEST_F(TornLogTest, ACutLogKeepsEveryCommitBeforeTheCut) {
  const Killed killed = MakeKilledCampaign();
  ASSERT_EQ(killed.log_bytes.size(), static_cast<std::size_t>(kCommits));
  const std::string original = directory_.File("original");
  CopyTo(original);
  Random random(5);
  for (int trial = 0; trial < 25; ++trial) {
    std::filesystem::remove_all(Folder());
    std::filesystem::copy(original, Folder(), std::filesystem::copy_options::recursive);
    const std::uintmax_t first = killed.log_bytes.front();
    const std::uintmax_t cut = first + random.Below(killed.log_bytes.back() - first + 1);
    std::filesystem::resize_file(Wal(), cut);
    std::filesystem::remove(Folder() + "/campaign.db-shm");
    const auto kept = std::count_if(killed.log_bytes.begin(), killed.log_bytes.end(),
                                    [&](std::uintmax_t bytes) { return bytes <= cut; });
    EXPECT_EQ(LastCommit(), kept) << "cut at " << cut;
    ExpectOnlyTheLoss(kept < kCommits);
  }
}

TEST_F(TornLogTest, RubbishAtTheEndIsDroppedAndTheRestStays) {
  const Killed killed = MakeKilledCampaign();
  ASSERT_EQ(killed.log_bytes.size(), static_cast<std::size_t>(kCommits));
  const std::string original = directory_.File("original");
  CopyTo(original);
  Random random(6);
  for (int trial = 0; trial < 25; ++trial) {
    std::filesystem::remove_all(Folder());
    std::filesystem::copy(original, Folder(), std::filesystem::copy_options::recursive);
    const std::size_t intact = random.Below(kCommits - 1);
    const std::uintmax_t start = killed.log_bytes[intact];
    {
      std::fstream log(Wal(), std::ios::in | std::ios::out | std::ios::binary);
      log.seekp(static_cast<std::streamoff>(start));
      for (std::uintmax_t i = start; i < killed.log_bytes.back(); ++i) log.put(static_cast<char>(random.Below(256)));
    }
    std::filesystem::remove(Folder() + "/campaign.db-shm");
    EXPECT_EQ(LastCommit(), static_cast<int>(intact) + 1);
    ExpectOnlyTheLoss(true);
  }
}

}  // namespace
}  // namespace fulcrum::testing
