// The program as one of several processes that a launcher starts: `fulcrum select` over MPI, and the commands that
// refuse. Tests that need mpirun are skipped, each by its name, if the program was built without FULCRUM_MPI.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// What a launcher would have set, as long as this lives.
class LaunchedAs {
 public:
  LaunchedAs(const char* size_name, int size, const char* rank_name, int rank)
      : size_name_(size_name), rank_name_(rank_name) {
    setenv(size_name, std::to_string(size).c_str(), 1);
    setenv(rank_name, std::to_string(rank).c_str(), 1);
  }
  ~LaunchedAs() {
    unsetenv(size_name_);
    unsetenv(rank_name_);
  }
  LaunchedAs(const LaunchedAs&) = delete;
  LaunchedAs& operator=(const LaunchedAs&) = delete;

 private:
  const char* size_name_;
  const char* rank_name_;
};

std::size_t CountOf(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class ClusterSelectTest : public ProgramTest {
 protected:
  ClusterSelectTest() {
    WritePool(4000);
    WriteLabels(40);
  }

  /// Words of one process, which writes to `out`. They may be changed at kPool and kOut.
  static constexpr std::size_t kPool = 3, kOut = 7;
  std::vector<std::string> SelectWords(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {FULCRUM_PROGRAM,    "select", "--pool",  File("pool.csv"), "--labels",
                                      File("labels.csv"), "--out",  File(out), "--batch",        "30",
                                      "--threads",        "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(ClusterSelectTest, ProcessesThatDoNotKnowOfEachOtherRefuse) {
  // Without MPI, or with an MPI that the launcher does not talk to.
  for (int rank = 0; rank < 2; ++rank) {
    const LaunchedAs launched("PMI_SIZE", 4, "PMI_RANK", rank);
    const ProcessResult result = RunProcess(SelectWords("batch.csv"));
    EXPECT_EQ(result.exit_code, 65) << result.standard_error;
    if (rank == 0) {
      EXPECT_THAT(result.standard_error, HasSubstr("one of 4 that a launcher started"));
    } else {
      EXPECT_EQ(result.standard_error, "") << "one of them reports it";
    }
    EXPECT_FALSE(std::filesystem::exists(File("batch.csv")));
  }
}

TEST_F(ClusterSelectTest, CommandsThatDoNotDivideTheirWorkRefuse) {
  const std::vector<std::vector<std::string>> commands = {
      {"convert", File("pool.csv"), File("pool.parquet")},
      {"experiment", "--spec", File("spec.yaml"), "--out", File("runs")},
      {"serve", "--data", File("data")},
      {"campaign", "list"}};
  for (const std::vector<std::string>& words : commands) {
    const std::vector<std::string> before = Files();
    const LaunchedAs launched("OMPI_COMM_WORLD_SIZE", 2, "OMPI_COMM_WORLD_RANK", 0);
    const ProcessResult result = Run(words);
    EXPECT_EQ(result.exit_code, 65) << words[0] << ": " << result.standard_error;
    EXPECT_THAT(result.standard_error, HasSubstr("a launcher started this command 2 times")) << words[0];
    EXPECT_EQ(Files(), before) << words[0];
  }
}

TEST_F(ClusterSelectTest, WorkersMayBeStartedSeveralTimes) {
  // Each is a worker of its own, so each says by itself that there is no daemon.
  const LaunchedAs launched("SLURM_STEP_NUM_TASKS", 2, "SLURM_PROCID", 1);
  const ProcessResult result =
      Run({"work", "--campaign", "c", "--server", "127.0.0.1:1", "--oracle", File("labels.csv"), "--retry-for", "1ms"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.standard_error, Not(HasSubstr("a launcher started")));
  EXPECT_NE(result.standard_error, "");
}

class MpirunTest : public ClusterSelectTest {
 protected:
  void SetUp() override {
    if (std::string(FULCRUM_MPIRUN).empty()) GTEST_SKIP() << "the program was built without FULCRUM_MPI";
  }

  static std::vector<std::string> Mpirun(int ranks, const std::vector<std::string>& words) {
    std::vector<std::string> all = {FULCRUM_MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                                    "-n",           std::to_string(ranks)};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  void ImportPool() const { ASSERT_EQ(Run({"import", File("pool.csv"), "--out", File("pool")}).exit_code, 0); }

  /// A pool of 30 MB as doubles, which stays on the disk with so little memory.
  static constexpr char kLittle[] = "230MiB";
  void ImportMappedPool() const {
    ASSERT_EQ(Run({"generate", "ringnorm", "--rows", "18750", "--dims", "200", "--out", File("ring.csv")}).exit_code,
              0);
    ASSERT_EQ(Run({"import", File("ring.csv"), "--out", File("large")}).exit_code, 0);
    std::string labels = "id,label\n";
    std::ifstream rows(File("ring.csv"));
    std::string row;
    std::getline(rows, row);
    for (int i = 0; i < 40 && std::getline(rows, row); ++i) {
      labels += std::to_string(i) + "," + row.substr(0, row.find(',')) + "\n";
    }
    folder_.Write("labels.csv", labels);
  }

  void ExpectSameBatch(int ranks, const std::vector<std::string>& more, const std::string& pool) {
    std::vector<std::string> words = SelectWords("one.csv", more);
    words[kPool] = File(pool);
    const ProcessResult one = RunProcess(words);
    ASSERT_EQ(one.exit_code, 0) << one.standard_error;
    words[kOut] = File("several.csv");
    const ProcessResult several = RunProcess(Mpirun(ranks, words));
    ASSERT_EQ(several.exit_code, 0) << several.standard_error;
    std::string what = pool + " on " + std::to_string(ranks) + " ranks:";
    for (const std::string& word : more) what += " " + word;
    EXPECT_EQ(Read("several.csv"), Read("one.csv")) << what;
  }
};

TEST_F(MpirunTest, SelectsTheSameBatchAsOneProcess) {
  ImportPool();
  for (const std::string strategy :
       {"random", "margin", "uncertainty", "alevs", "dbalevs", "hybrid", "top-lev", "herding", "adaptive-herding"}) {
    ExpectSameBatch(3, {"--strategy", strategy, "--tune", "off"}, "pool");
  }
  ExpectSameBatch(2, {"--strategy", "dbalevs", "--tune", "off"}, "pool.csv");
  ExpectSameBatch(4, {"--strategy", "dbalevs", "--engine", "landmark", "--no-refine"}, "pool");
}

TEST_F(MpirunTest, ImportsAPoolFromWhichTheSameBatchIsSelected) {
  const std::string text = Read("pool.csv");
  const std::string header = text.substr(0, text.find('\n') + 1);
  std::size_t at = header.size();
  for (int file = 0; file < 3; ++file) {
    const std::size_t end =
        file == 2 ? text.size() : text.find('\n', text.size() / 3 * static_cast<std::size_t>(file + 1)) + 1;
    folder_.Write("part-" + std::to_string(file) + ".csv", header + text.substr(at, end - at));
    at = end;
  }
  ImportPool();
  const std::vector<std::string> words = {FULCRUM_PROGRAM, "import", File("part-*.csv"), "--out", File("joint")};
  const ProcessResult imported = RunProcess(Mpirun(3, words));
  ASSERT_EQ(imported.exit_code, 0) << imported.standard_error;
  EXPECT_EQ(CountOf("4000 rows", imported.standard_output), 1u) << imported.standard_output;
  std::vector<std::string> one = SelectWords("one.csv", {"--tune", "off"}),
                           joint = SelectWords("joint.csv", {"--tune", "off"});
  one[kPool] = File("pool");
  joint[kPool] = File("joint");
  ASSERT_EQ(RunProcess(one).exit_code, 0);
  ASSERT_EQ(RunProcess(joint).exit_code, 0);
  EXPECT_EQ(Read("joint.csv"), Read("one.csv"));
  const ProcessResult again = RunProcess(Mpirun(2, words));
  EXPECT_EQ(again.exit_code, 65) << again.standard_error;
  EXPECT_THAT(again.standard_error, HasSubstr("can only make a new pool"));
}

TEST_F(MpirunTest, TunesAsOneProcess) {
  ImportPool();
  for (const std::string pool : {"pool.csv", "pool"}) ExpectSameBatch(3, {"--tune", "auto"}, pool);
  ImportMappedPool();
  ExpectSameBatch(3, {"--tune", "auto", "--memory", kLittle}, "large");
}

TEST_F(MpirunTest, WeighsClassesAsOneProcess) {
  ExpectSameBatch(3, {"--strategy", "margin", "--class-weights", "balanced"}, "pool.csv");
  ExpectSameBatch(3, {"--strategy", "margin", "--class-weights", "neg=2,pos=0.5"}, "pool.csv");
}

TEST_F(MpirunTest, TheFirstLabelsGiveTheSameBatchAsOneProcess) {
  std::string one_class = "id,label\n";
  for (std::size_t row = 0; row < 18; row += 2) one_class += RowId(row) + ",neg\n";
  folder_.Write("labels.csv", one_class);
  ExpectSameBatch(3, {"--strategy", "adaptive-herding"}, "pool.csv");
  folder_.Write("labels.csv", one_class + RowId(1) + ",pos\n");
  ExpectSameBatch(3, {"--strategy", "adaptive-herding"}, "pool.csv");
}

TEST_F(MpirunTest, TheRootWritesTheScoresOfAllRows) {
  std::vector<std::string> words = SelectWords("batch.csv", {"--strategy", "alevs", "--scores", File("one.csv")});
  ASSERT_EQ(RunProcess(words).exit_code, 0);
  words.back() = File("several.csv");
  ASSERT_EQ(RunProcess(Mpirun(3, words)).exit_code, 0);
  EXPECT_EQ(Read("several.csv"), Read("one.csv"));
}

TEST_F(MpirunTest, ErrorsAreReportedOnceWithTheRank) {
  std::vector<std::string> words = SelectWords("batch.csv");
  words[kPool] = File("missing.csv");
  const ProcessResult missing = RunProcess(Mpirun(3, words));
  EXPECT_EQ(missing.exit_code, 65) << missing.standard_error;
  EXPECT_THAT(missing.standard_error, HasSubstr("rank 0 on "));
  EXPECT_EQ(CountOf("fulcrum select: ", missing.standard_error), 1u) << missing.standard_error;
  EXPECT_FALSE(std::filesystem::exists(File("batch.csv")));
}

TEST_F(MpirunTest, UsageErrorsAreReportedOnce) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--no-such-option"}, {"--alpha", "7"}, {"--strategy", "no-such-strategy"}}) {
    const ProcessResult result = RunProcess(Mpirun(3, SelectWords("batch.csv", more)));
    EXPECT_EQ(result.exit_code, 2) << result.standard_error;
    EXPECT_EQ(CountOf("fulcrum select: ", result.standard_error), 1u) << result.standard_error;
  }
}

TEST_F(MpirunTest, PredictionsWithoutConfidenceAreRefused) {
  std::string predictions = "id,label\n";
  for (std::size_t row = 0; row < 4000; ++row) predictions += RowId(row) + (row % 2 == 1 ? ",pos\n" : ",neg\n");
  folder_.Write("classes.csv", predictions);
  const ProcessResult result =
      RunProcess(Mpirun(2, SelectWords("batch.csv", {"--strategy", "margin", "--predictions", File("classes.csv")})));
  EXPECT_EQ(result.exit_code, 2) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("strategy 'margin' needs the confidence of a classifier"));
  ExpectSameBatch(2, {"--strategy", "dbalevs", "--predictions", File("classes.csv")}, "pool.csv");
}

TEST_F(MpirunTest, ARootThatCannotWriteEndsTheOthers) {
  // The others have sent their scores for the second output.
  std::vector<std::string> words = SelectWords("batch.csv", {"--strategy", "alevs", "--scores", "-"});
  words[kOut] = "/dev/full";
  const ProcessResult result = RunProcess(Mpirun(3, words));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.standard_error, HasSubstr("/dev/full"));
  EXPECT_EQ(CountOf("fulcrum select: ", result.standard_error), 1u) << result.standard_error;
  EXPECT_EQ(result.standard_output, "");
}

TEST_F(MpirunTest, PoolsThatDifferAreRefused) {
  // Rank 1 reads another pool: the launcher's application contexts give each rank its own words.
  std::vector<std::string> words = Mpirun(1, SelectWords("batch.csv"));
  std::vector<std::string> of_other = SelectWords("batch.csv");
  folder_.Write("other.csv", PoolText(4001));
  of_other[kPool] = File("other.csv");
  words.insert(words.end(), {":", "-n", "1"});
  words.insert(words.end(), of_other.begin(), of_other.end());
  const ProcessResult result = RunProcess(words);
  EXPECT_EQ(result.exit_code, 65) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("rank 1 on "));
  EXPECT_THAT(result.standard_error, HasSubstr("the pool here and on rank 0 are not the same"));
  EXPECT_FALSE(std::filesystem::exists(File("batch.csv")));
}

TEST_F(MpirunTest, MemoriesThatDifferDoNotMatter) {
  // Rank 1 maps the pool, and rank 0 would read it: they agree on the smaller memory.
  ImportMappedPool();
  std::vector<std::string> one = SelectWords("one.csv", {"--memory", kLittle, "--tune", "off"});
  one[kPool] = File("large");
  ASSERT_EQ(RunProcess(one).exit_code, 0);
  std::vector<std::string> of_other = one, of_root = SelectWords("", {"--memory", "4GiB", "--tune", "off"});
  of_root[kPool] = File("large");
  of_root[kOut] = of_other[kOut] = File("several.csv");
  std::vector<std::string> both = Mpirun(1, of_root);
  both.insert(both.end(), {":", "-n", "1"});
  both.insert(both.end(), of_other.begin(), of_other.end());
  const ProcessResult result = RunProcess(both);
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(Read("several.csv"), Read("one.csv"));
}

/// The processes below mpirun.
std::vector<pid_t> RanksOf(pid_t mpirun) {
  std::vector<pid_t> ranks;
  std::ifstream children("/proc/" + std::to_string(mpirun) + "/task/" + std::to_string(mpirun) + "/children");
  for (pid_t child = 0; children >> child;) ranks.push_back(child);
  return ranks;
}

/// mpirun in the background, and what its ranks print to standard error.
struct Running {
  pid_t mpirun = 0;
  int output = -1;
};

Running Start(const std::vector<std::string>& words) {
  int ends[2] = {};
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Running running{.mpirun = fork(), .output = ends[0]};
  if (running.mpirun == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    dup2(ends[1], STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  return running;
}

/// Reads until the ranks have reported so many steps, or have ended.
void WaitForLines(const Running& running, std::size_t lines) {
  char letter = 0;
  while (lines > 0 && read(running.output, &letter, 1) == 1) lines -= letter == '\n' ? 1 : 0;
}

TEST_F(MpirunTest, ARankThatIsKilledEndsAllOfThemAndTheNextRunIsTheSame) {
  constexpr int kKills = 20, kRanks = 3;
  std::vector<std::string> words =
      SelectWords("expected.csv", {"--strategy", "dbalevs", "--engine", "landmark", "--no-refine", "--verbose"});
  const ProcessResult whole = RunProcess(Mpirun(kRanks, words));
  ASSERT_EQ(whole.exit_code, 0) << whole.standard_error;
  const std::size_t lines = CountOf("\n", whole.standard_error);
  ASSERT_GE(lines, 4u) << "the stages of the round: " << whole.standard_error;
  words[kOut] = File("batch.csv");
  std::mt19937 random(5);
  int killed = 0;
  for (int turn = 0; turn < kKills; ++turn) {
    const Running running = Start(Mpirun(kRanks, words));
    // The moment is random: ranks may be starting, in any stage, or ending.
    while (RanksOf(running.mpirun).size() < kRanks && waitpid(running.mpirun, nullptr, WNOHANG | WNOWAIT) == 0) {
    }
    WaitForLines(running, random() % (lines + 1));
    const std::vector<pid_t> ranks = RanksOf(running.mpirun);
    if (!ranks.empty() && kill(ranks[random() % ranks.size()], SIGKILL) == 0) ++killed;
    // Its end is what this test waits for, and its time limit is that of the test.
    char rest[4096];
    while (read(running.output, rest, sizeof(rest)) > 0) {
    }
    int status = 0;
    waitpid(running.mpirun, &status, 0);
    close(running.output);
    for (const pid_t rank : ranks) EXPECT_NE(kill(rank, 0), 0) << "a rank has outlived mpirun";
    EXPECT_THAT(Files(), Not(Contains(HasSubstr("tmp"))));
    if (std::filesystem::exists(File("batch.csv"))) {
      // It had been written before the kill: complete or not at all.
      EXPECT_EQ(Read("batch.csv"), Read("expected.csv"));
    } else {
      EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "success without a batch";
    }
    std::filesystem::remove(File("batch.csv"));
  }
  EXPECT_GE(killed, kKills / 2);
  const ProcessResult again = RunProcess(Mpirun(kRanks, words));
  ASSERT_EQ(again.exit_code, 0) << again.standard_error;
  EXPECT_EQ(Read("batch.csv"), Read("expected.csv"));
}

}  // namespace
}  // namespace fulcrum::testing
