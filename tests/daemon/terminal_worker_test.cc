// `fulcrum work` at a terminal: an annotator who leaves gives back its tasks at once.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;

/// A program at a terminal that the test types into.
class ProgramAtTerminal {
 public:
  explicit ProgramAtTerminal(std::vector<std::string> words) : terminal_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_EQ(grantpt(terminal_), 0);
    EXPECT_EQ(unlockpt(terminal_), 0);
    const std::string name = ptsname(terminal_);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_addopen(&files, descriptor, name.c_str(), O_RDWR | O_NOCTTY, 0);
    }
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&process_, arguments[0], &files, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
  }
  ~ProgramAtTerminal() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(terminal_);
  }
  ProgramAtTerminal(const ProgramAtTerminal&) = delete;
  ProgramAtTerminal& operator=(const ProgramAtTerminal&) = delete;

  /// Reads until the text is on the screen.
  void Await(const std::string& text) {
    while (!absl::StrContains(screen_, text)) {
      ASSERT_TRUE(ReadSome()) << "the program ended before it wrote '" << text << "'; it wrote: " << screen_;
    }
    screen_.clear();
  }
  void Type(char key) const { EXPECT_EQ(write(terminal_, &key, 1), 1); }
  void Interrupt() const { kill(process_, SIGINT); }
  /// Everything that it still writes until it ends.
  std::string AwaitEnd() {
    while (ReadSome()) {
    }
    int status = -1;
    waitpid(process_, &status, 0);
    process_ = -1;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    return screen_;
  }

 private:
  /// False once nobody has the terminal open any more.
  bool ReadSome() {
    char buffer[4096];
    const ssize_t count = read(terminal_, buffer, sizeof(buffer));
    if (count > 0) screen_.append(buffer, static_cast<std::size_t>(count));
    return count > 0;
  }

  const int terminal_;
  pid_t process_ = -1;
  std::string screen_;
};

class TerminalWorkerTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(daemon_->port(), "");
    v1::CampaignSpec spec = CloudSpec("clouds", 3);
    spec.mutable_selection()->set_batch(30);
    // Leases that are left would be left for the whole test.
    spec.mutable_labeling()->mutable_lease_time()->set_seconds(24 * 3600);
    ASSERT_TRUE(client_->Create(spec).ok());
    ASSERT_TRUE(client_->Start("clouds").ok());
  }

  ProgramAtTerminal Work() const {
    return ProgramAtTerminal({FULCRUM_PROGRAM, "work", "--campaign", "clouds", "--annotator", "ada", "--batch", "5",
                              "--server", absl::StrCat("127.0.0.1:", daemon_->port())});
  }
  void ExpectNothingLeased() {
    while (client_->Get("clouds").items().leased() > 0) {
    }
  }

  std::unique_ptr<DaemonClient> client_;
};

TEST_F(TerminalWorkerTest, QuittingReleasesWhatIsHeld) {
  ProgramAtTerminal program = Work();
  program.Await("q quit >");
  EXPECT_GT(client_->Get("clouds").items().leased(), 0);
  program.Type('1');
  program.Await("q quit >");
  program.Type('q');
  EXPECT_THAT(program.AwaitEnd(), HasSubstr("1 labels accepted"));
  ExpectNothingLeased();
  EXPECT_EQ(client_->Get("clouds").labels(), 1);
  // Others get them at once.
  v1::AcquireTasksResponse others;
  ASSERT_TRUE(client_->Acquire(TasksWanted("clouds", "ben", 29), &others).ok());
  EXPECT_EQ(others.tasks_size(), 29);
}

TEST_F(TerminalWorkerTest, AnInterruptReleasesWhatIsHeld) {
  ProgramAtTerminal program = Work();
  program.Await("q quit >");
  program.Interrupt();
  EXPECT_THAT(program.AwaitEnd(), HasSubstr("released"));
  ExpectNothingLeased();
}

}  // namespace
}  // namespace fulcrum::testing
