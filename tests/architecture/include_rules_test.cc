#include "tests/architecture/include_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace fulcrum::architecture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Judge(const std::string& path, const std::string& content) {
  return FindViolations({path, content});
}

TEST(IncludeRulesTest, NoFolderIncludesWhatItMayNot) {
  for (const SourceFile& file : ReadSourceTree(FULCRUM_SOURCE_DIR)) {
    for (const std::string& violation : FindViolations(file)) ADD_FAILURE() << violation;
  }
}

TEST(IncludeRulesTest, EveryFolderWithARuleHasSourcesThatWereRead) {
  const std::vector<SourceFile> files = ReadSourceTree(FULCRUM_SOURCE_DIR);
  for (const FolderRule& rule : FolderRules()) {
    const bool found = std::any_of(files.begin(), files.end(), [&](const SourceFile& file) {
      return file.path.starts_with(rule.folder + "/") && !file.content.empty();
    });
    EXPECT_TRUE(found) << rule.folder;
  }
}

TEST(IncludeRulesTest, DependenciesPointOneWay) {
  EXPECT_THAT(Judge("stages/core/matrix.h", "#include \"stages/kernel/features.h\"\n"),
              ElementsAre(AllOf(HasSubstr("stages/core/matrix.h:1"), HasSubstr("stages/kernel/features.h"))));
  EXPECT_THAT(Judge("stages/select/alevs.cc", "#include \"stages/leverage/leverage_scores.h\"\n"), IsEmpty());
  EXPECT_EQ(Judge("stages/select/alevs.cc", "#include \"stages/classify/svm.h\"\n").size(), 1U);
  EXPECT_EQ(Judge("stages/ingest/pool.cc", "#include \"stages/kernel/features.h\"\n").size(), 1U);
  EXPECT_EQ(Judge("stages/leverage/dense.cc", "#include \"storage/sqlite_database.h\"\n").size(), 1U);
  EXPECT_THAT(Judge("storage/label_log.cc", "#include \"stages/ingest/pool.h\"\n"), IsEmpty());
  EXPECT_EQ(Judge("storage/label_log.cc", "#include \"pipeline/round.h\"\n").size(), 1U);
  EXPECT_THAT(
      Judge("pipeline/commands/x.cc", "#include \"storage/label_log.h\"\n#include \"pipeline/round/round.h\"\n"),
      IsEmpty());
  EXPECT_EQ(Judge("pipeline/round/x.cc", "#include \"pipeline/campaign/campaign.h\"\n").size(), 1U);
  EXPECT_EQ(Judge("pipeline/campaign/x.cc", "#include \"pipeline/server/executor.h\"\n").size(), 1U);
  EXPECT_EQ(Judge("pipeline/client/x.cc", "#include \"storage/clock.h\"\n").size(), 1U);
}

TEST(IncludeRulesTest, LibrariesStayWhereTheyBelong) {
  EXPECT_THAT(Judge("stages/linalg/blas.cc", "#include <mkl.h>\n#include <cblas.h>\n"), IsEmpty());
  EXPECT_EQ(Judge("stages/kernel/kernel_block.cc", "#include <mkl.h>\n#  include <lapacke.h>\n").size(), 2U);
  EXPECT_EQ(Judge("stages/leverage/engine.cc", "#include \"arrow/api.h\"\n").size(), 1U);
  EXPECT_EQ(Judge("pipeline/round/round.cc", "#include <sqlite3.h>\n").size(), 1U);
  EXPECT_THAT(Judge("pipeline/text/version.cc", "#include <sqlite3.h>\n"), IsEmpty());
  EXPECT_EQ(Judge("storage/lease.cc", "#include <grpcpp/grpcpp.h>\n#include \"fulcrum/v1/x.pb.h\"\n").size(), 2U);
  EXPECT_EQ(Judge("stages/leverage/engine.cc", "#include \"tbb/flow_graph.h\"\n").size(), 1U);
  EXPECT_EQ(Judge("stages/leverage/engine.cc", "#include <oneapi/tbb/flow_graph.h>\n").size(), 1U);
  EXPECT_THAT(Judge("stages/leverage/engine.cc", "#include \"tbb/parallel_for.h\"\n"), IsEmpty());
  EXPECT_EQ(Judge("stages/classify/svm.cc", "#include <libsvm/svm.h>\n").size(), 1U);
  EXPECT_EQ(Judge("pipeline/commands/main.cc", "#include \"tests/support/matrices.h\"\n").size(), 1U);
}

TEST(IncludeRulesTest, FaultsAreToldWithTheirLineAndReason) {
  EXPECT_THAT(Judge("stages/kernel/a.cc", "// why\n\n#include <mkl.h>\n"),
              ElementsAre("stages/kernel/a.cc:3: mkl.h: BLAS and LAPACK must not be included here: one folder hides "
                          "which linear algebra is below"));
}

TEST(IncludeRulesTest, HeadersAreNamedFromTheRoot) {
  EXPECT_EQ(Judge("stages/core/random.cc", "#include \"random.h\"\n").size(), 1U);
  EXPECT_EQ(Judge("stages/core/random.cc", "#include \"../kernel/features.h\"\n").size(), 1U);
  EXPECT_THAT(Judge("stages/core/random.cc", "#include <cmath>\n// #include \"pipeline/round.h\"\n"), IsEmpty());
}

TEST(IncludeRulesTest, NewFolderNeedsARule) {
  EXPECT_THAT(Judge("stages/telepathy/mind.h", ""), ElementsAre(HasSubstr("has no rule")));
}

}  // namespace
}  // namespace fulcrum::architecture
