// The client commands of the program against a daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "stages/classify/model_file.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/process.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ClientCommandsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    folder_.Write("pools/few.csv", NamedCloudsText(60));
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(daemon_->port(), "");
    v1::CampaignSpec spec = CloudSpec("clouds", 3);
    spec.mutable_pool()->set_sources(0, "few.csv");
    ASSERT_TRUE(client_->Create(spec).ok());
    ASSERT_TRUE(client_->Start("clouds").ok());
  }
  ProcessResult Campaign(std::vector<std::string> words) const {
    words.insert(words.begin(), {FULCRUM_PROGRAM, "campaign"});
    words.insert(words.end(), {"--server", absl::StrCat("127.0.0.1:", daemon_->port())});
    return RunProcess(words);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_.File(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::unique_ptr<DaemonClient> client_;
};

TEST_F(ClientCommandsTest, AppendSaysWhatBecameOfTheRows) {
  const std::string rows = folder_.Write("more.csv", NamedCloudsText(100));
  const ProcessResult appended = Campaign({"append", "clouds", rows});
  EXPECT_EQ(appended.exit_code, 0) << appended.standard_error;
  EXPECT_EQ(appended.standard_output, "40 of 100 rows added, 60 existing, 0 rejected; the pool has 100 rows\n");
  const ProcessResult bad = Campaign({"append", "clouds", folder_.Write("bad.csv", "id,f0,f1,f2,f3\n900,1,nan,3,4\n")});
  EXPECT_EQ(bad.exit_code, 0) << bad.standard_error;
  EXPECT_THAT(bad.standard_output, HasSubstr("1 rejected"));
  EXPECT_THAT(bad.standard_output, HasSubstr("column 'f1'"));
  const ProcessResult other = Campaign({"append", "clouds", folder_.Write("other.csv", "id,x\n900,1\n")});
  EXPECT_NE(other.exit_code, 0);
  EXPECT_THAT(other.standard_error, HasSubstr("the rows lack 4 of the pool's features: 'f0', 'f1', 'f2', 'f3'"));
}

TEST_F(ClientCommandsTest, OperationsAreListedShownAndCancelled) {
  const auto operations = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {FULCRUM_PROGRAM, "operations"});
    words.insert(words.end(), {"--server", absl::StrCat("127.0.0.1:", daemon_->port())});
    return RunProcess(words);
  };
  v1::Operation operation;
  ASSERT_TRUE(client_->BeginCreate(CloudSpec("second", 2), "second", &operation).ok());
  operation = client_->AwaitOperation(operation.name());
  const ProcessResult listed = operations({"list"});
  EXPECT_EQ(listed.exit_code, 0) << listed.standard_error;
  EXPECT_THAT(listed.standard_output, HasSubstr(operation.name()));
  EXPECT_THAT(listed.standard_output, HasSubstr("succeeded"));
  // One that has ended stays as it is.
  for (const char* word : {"get", "cancel"}) {
    const ProcessResult shown = operations({word, operation.name()});
    EXPECT_EQ(shown.exit_code, 0) << shown.standard_error;
    EXPECT_THAT(shown.standard_output, HasSubstr("succeeded")) << word;
  }
  const ProcessResult unknown = operations({"get", "create-nothing-1"});
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_THAT(unknown.standard_error, HasSubstr("create-nothing-1"));
}

TEST_F(ClientCommandsTest, ModelAndPredictTellWhatWasLearned) {
  const ProcessResult early = Campaign({"model", "clouds", "--out", folder_.File("model")});
  EXPECT_NE(early.exit_code, 0);
  EXPECT_THAT(early.standard_error, HasSubstr("no model is trained yet"));
  EXPECT_EQ(Campaign({"retrain", "clouds"}).exit_code, 0);
  WorkUntilOver(*client_, "clouds", "ada");

  const ProcessResult fetched = Campaign({"model", "clouds", "--round", "3", "--out", folder_.File("model")});
  EXPECT_EQ(fetched.exit_code, 0) << fetched.standard_error;
  EXPECT_THAT(fetched.standard_output, HasSubstr("the model of round 3, trained on the log up to "));
  const auto saved = classify::ParseSvm(Read("model"));
  ASSERT_TRUE(saved.ok()) << saved.status();
  const ProcessResult libsvm =
      Campaign({"model", "clouds", "--round", "3", "--format", "libsvm", "--out", folder_.File("libsvm")});
  EXPECT_EQ(libsvm.exit_code, 0) << libsvm.standard_error;
  EXPECT_THAT(Read("libsvm"), ::testing::AllOf(HasSubstr("svm_type c_svc\n"), HasSubstr("nr_class 2\n"),
                                               HasSubstr(absl::StrCat("total_sv ", saved->model.support_rows.size()))));
  EXPECT_EQ(Campaign({"model", "clouds", "--format", "pickle", "--out", folder_.File("x")}).exit_code, 2);

  const std::string rows = folder_.Write("rows.csv", NamedCloudsText(200));
  const ProcessResult predicted =
      Campaign({"predict", "clouds", "--item", "7", "--rows", rows, "--out", folder_.File("predicted.csv")});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.standard_error;
  const std::vector<std::string> lines = absl::StrSplit(Read("predicted.csv"), '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(202));
  EXPECT_EQ(lines[0], "id,class,decision neg|pos,probability neg,probability pos");
  EXPECT_EQ(lines[1], lines[9]) << "row 7 by name and by its features";
  int right = 0;
  for (int row = 0; row < 200; ++row) {
    right += absl::StartsWith(lines[static_cast<std::size_t>(row) + 2],
                              absl::StrCat(row, ",", AnswerTo(absl::StrCat(row)), ","))
                 ? 1
                 : 0;
  }
  EXPECT_GT(right, 150);
  EXPECT_NE(Campaign({"predict", "clouds"}).exit_code, 0);

  // By name: the order of the columns has no effect, and a missing or an unknown one is named.
  const auto with_columns = [&](const std::vector<std::size_t>& columns, const std::string& more) {
    std::string text;
    for (const absl::string_view line : absl::StrSplit(NamedCloudsText(200), '\n', absl::SkipEmpty())) {
      const std::vector<std::string> values = absl::StrSplit(line, ',');
      std::vector<std::string> chosen;
      for (const std::size_t column : columns) chosen.push_back(values[column]);
      if (!more.empty()) chosen.push_back(text.empty() ? more : "1");
      absl::StrAppend(&text, absl::StrJoin(chosen, ","), "\n");
    }
    return folder_.Write("columns.csv", text);
  };
  const auto predict = [&](const std::string& file) {
    return Campaign({"predict", "clouds", "--rows", file, "--out", folder_.File("shuffled.csv")});
  };
  EXPECT_EQ(predict(with_columns({3, 0, 4, 2, 1}, "")).exit_code, 0);
  const std::vector<std::string> shuffled = absl::StrSplit(Read("shuffled.csv"), '\n', absl::SkipEmpty());
  ASSERT_THAT(shuffled, SizeIs(201));
  EXPECT_EQ(std::vector<std::string>(shuffled.begin() + 1, shuffled.end()),
            std::vector<std::string>(lines.begin() + 2, lines.end()));
  const ProcessResult missing = predict(with_columns({0, 1, 2, 4}, ""));
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.standard_error, HasSubstr("lack 1 of the pool's features: 'f2'"));
  const ProcessResult extra = predict(with_columns({0, 1, 2, 3, 4}, "age"));
  EXPECT_NE(extra.exit_code, 0);
  EXPECT_THAT(extra.standard_error, HasSubstr("'age'"));
}

}  // namespace
}  // namespace fulcrum::testing
