#include <gtest/gtest.h>

#include "pipeline/commands/command_line.h"
#include "pipeline/text/spec_reader.h"
#include "pipeline/text/version.h"

namespace fulcrum::pipeline {
namespace {

TEST(ExitCodes, AreThoseThatTheHelpNames) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("")), 65);
  EXPECT_EQ(ExitCodeFor(absl::NotFoundError("")), 65);
  EXPECT_EQ(ExitCodeFor(absl::FailedPreconditionError("")), 65);
  EXPECT_EQ(ExitCodeFor(absl::InternalError("")), 70);
  EXPECT_EQ(ExitCodeFor(absl::ResourceExhaustedError("")), 75);
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("")), 75);
  EXPECT_EQ(ExitCodeFor(absl::DeadlineExceededError("")), 75);
  EXPECT_EQ(ExitCodeFor(absl::PermissionDeniedError("")), 77);
  EXPECT_EQ(ExitCodeFor(absl::UnauthenticatedError("")), 77);
  EXPECT_EQ(ExitCodeFor(absl::OutOfRangeError("")), 99);
}

TEST(NearestName, FindsWhatWasMeantAndNothingElse) {
  EXPECT_EQ(NearestName("slect", {"generate", "select"}), "select");
  EXPECT_EQ(NearestName("--sgima", {"--sigma", "--seed"}), "--sigma");
  EXPECT_EQ(NearestName("xyz", {"generate", "select"}), "");
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("ab", "ba"), 1u);
}

TEST(Version, NamesEveryLibraryWithANumber) {
  for (const LibraryVersion& library : LibraryVersions()) {
    EXPECT_NE(library.version.find_first_of("0123456789"), std::string::npos) << library.name;
    EXPECT_NE(VersionText().find(library.name), std::string::npos);
  }
  EXPECT_EQ(LibraryVersions().size(), 6u);
}

TEST(ProcessorCheck, TheProcessorThatRunsTheTestsWillDo) {
  EXPECT_EQ(MissingInstructionSet(), nullptr);
}

}  // namespace
}  // namespace fulcrum::pipeline
