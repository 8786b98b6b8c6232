// What a commit promises: a process that is killed without warning loses nothing it was told is kept, and
// leaves nothing behind that it was not told.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "storage/sqlite/sqlite.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

constexpr int kCommits = 20;

[[noreturn]] void WaitToBeKilled() {
  for (;;) pause();
}

/// Runs in the child: commits one row at a time, acknowledges each, then leaves a transaction open.
/// Returns only on failure.
void CommitThenLeaveOneOpen(const std::string& path, int acknowledge) {
  auto database = SqliteDatabase::Open(path);
  if (!database.ok() || !database->Execute("CREATE TABLE label(id INTEGER PRIMARY KEY)").ok()) return;
  for (int id = 0; id <= kCommits; ++id) {
    auto transaction = SqliteTransaction::BeginWrite(*database);
    if (!transaction.ok()) return;
    if (!database->Execute("INSERT INTO label VALUES (" + std::to_string(id) + ")").ok()) return;
    const bool leave_open = id == kCommits;
    if (!leave_open && !transaction->Commit().ok()) return;
    if (write(acknowledge, "k", 1) != 1) return;
    if (leave_open) WaitToBeKilled();
  }
}

/// Waits until the child has acknowledged everything (or died), kills it, and says how much it acknowledged.
int KillAfterAcknowledgements(pid_t child, int acknowledgements) {
  int count = 0;
  char byte = 0;
  while (count <= kCommits && read(acknowledgements, &byte, 1) == 1) ++count;
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? count : -1;
}

TEST(SqliteDurabilityTest, CommittedRowsSurviveSigkillAndTheOpenTransactionDoesNot) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("campaign.db");
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    CommitThenLeaveOneOpen(path, channel[1]);
    _exit(1);
  }
  close(channel[1]);
  const int acknowledged = KillAfterAcknowledgements(child, channel[0]);
  close(channel[0]);
  ASSERT_EQ(acknowledged, kCommits + 1) << "the child ended by itself";

  auto database = SqliteDatabase::Open(path);
  ASSERT_TRUE(database.ok()) << database.status();
  EXPECT_EQ(*database->QueryText("SELECT count(*) FROM label"), std::to_string(kCommits));
  EXPECT_EQ(*database->QueryText("SELECT max(id) FROM label"), std::to_string(kCommits - 1));
  EXPECT_EQ(*database->QueryText("PRAGMA integrity_check"), "ok");
}

}  // namespace
}  // namespace fulcrum::storage
