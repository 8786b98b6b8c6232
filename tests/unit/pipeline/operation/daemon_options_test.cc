// Options that a daemon refuses to start with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "pipeline/operation/daemon.h"
#include "pipeline/round/memory_budget.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DaemonOptionsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.File(name)).parent_path());
    std::ofstream(folder_.File(name)) << text;
  }
  std::size_t Limit() { return ControlGroupBytes(folder_.File("membership"), folder_.File("groups")); }

  testing::TemporaryDirectory folder_;
};

TEST_F(DaemonOptionsTest, TheSmallestLimitOfTheGroupsAboveCounts) {
  EXPECT_EQ(Limit(), std::numeric_limits<std::size_t>::max());
  Write("membership", "4:memory:/other\n0::/system.slice/fulcrum.service\n");
  Write("groups/system.slice/fulcrum.service/memory.max", "max\n");
  EXPECT_EQ(Limit(), std::numeric_limits<std::size_t>::max());
  Write("groups/system.slice/memory.max", "3000000\n");
  EXPECT_EQ(Limit(), 3000000u);
  Write("groups/system.slice/fulcrum.service/memory.max", "2000000\n");
  EXPECT_EQ(Limit(), 2000000u);
  Write("groups/memory.max", "1000000\n");
  EXPECT_EQ(Limit(), 1000000u);
}

TEST_F(DaemonOptionsTest, AMemoryBudgetAboveTheLimitIsRefused) {
  DaemonOptions options;
  options.data_folder = folder_.File("data");
  options.server.address = "127.0.0.1:0";
  options.ask_for_tokens = false;
  options.memory_budget = MachineMemoryBytes() + (std::size_t{1} << 20);
  const auto refused = Daemon::Start(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), AllOf(HasSubstr("memory_budget"), HasSubstr("MiB")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("data/campaigns")));
  options.memory_budget = MachineMemoryBytes();
  EXPECT_TRUE(Daemon::Start(options).ok());
}

}  // namespace
}  // namespace fulcrum::pipeline
