// What the program answers before any command runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/program_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CommandLineTest : public ProgramTest {};

TEST_F(CommandLineTest, VersionNamesItselfAndItsLibraries) {
  const ProcessResult result = Run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.standard_output, StartsWith("fulcrum " FULCRUM_VERSION "\n"));
  for (const char* library : {"Arrow", "oneTBB", "gRPC", "Protocol Buffers", "SQLite"}) {
    EXPECT_THAT(result.standard_output, HasSubstr(library));
  }
  EXPECT_THAT(result.standard_output, ::testing::AnyOf(HasSubstr("MKL"), HasSubstr("OpenBLAS")));
  EXPECT_THAT(result.standard_error, IsEmpty());
}

// The dynamic linker reports every library that it loads.
std::string LoadedLibraries(std::vector<std::string> words) {
  words.insert(words.begin(), {"/usr/bin/env", "LD_DEBUG=files", FULCRUM_PROGRAM});
  return RunProcess(words).standard_error;
}

TEST_F(CommandLineTest, ClientsDoNotLoadLinearAlgebra) {
  EXPECT_THAT(LoadedLibraries({"campaign", "list", "--server", "127.0.0.1:1"}), Not(HasSubstr("libmkl_core")));
  EXPECT_THAT(LoadedLibraries({"--version"}), ::testing::AnyOf(HasSubstr("libmkl_core"), HasSubstr("openblas")));
}

TEST_F(CommandLineTest, HelpListsTheCommandsInGroups) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"}, std::vector<std::string>{}}) {
    const ProcessResult result = Run(words);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.standard_output, HasSubstr("One-shot jobs:\n  select "));
    EXPECT_THAT(result.standard_output, HasSubstr("Data:\n  generate "));
    EXPECT_THAT(result.standard_output, HasSubstr("99  nothing left to select"));
  }
}

TEST_F(CommandLineTest, HelpOfACommandDocumentsItsFiles) {
  const ProcessResult result = Run({"select", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* text : {"--pool", "--leverage-scale", "rank,id,class,leverage,gain",
                           "id,class,labeled,leverage,probability", "tau_reached", "Exit codes"}) {
    EXPECT_THAT(result.standard_output, HasSubstr(text));
  }
}

TEST_F(CommandLineTest, UnknownWordsAreUsageErrorsWithAHint) {
  const ProcessResult command = Run({"slect"});
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_THAT(command.standard_error, HasSubstr("unknown command 'slect'; did you mean 'select'?"));
  EXPECT_THAT(command.standard_error, HasSubstr("fulcrum --help"));
  const ProcessResult option = Run({"select", "--sgima", "2"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.standard_error, HasSubstr("unknown option '--sgima'; did you mean '--sigma'?"));
  EXPECT_THAT(option.standard_error, HasSubstr("fulcrum select --help"));
  EXPECT_THAT(option.standard_output, IsEmpty());
}

TEST_F(CommandLineTest, LinesOfLibrariesAreLeftOut) {
  folder_.Write("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  const ProcessResult result = Run({"campaign", "list", "--server", "127.0.0.1:1", "--tls-ca", File("ca.pem")});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.standard_error, StartsWith("fulcrum campaign list: "));
  EXPECT_EQ(std::count(result.standard_error.begin(), result.standard_error.end(), '\n'), 1) << result.standard_error;
}

TEST_F(CommandLineTest, StrategiesAreListedWithoutAnyFile) {
  const ProcessResult result = Run({"select", "--strategy", "list"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* name : {"dbalevs", "alevs", "random", "uncertainty", "use it: "}) {
    EXPECT_THAT(result.standard_output, HasSubstr(name));
  }
}

}  // namespace
}  // namespace fulcrum::testing
