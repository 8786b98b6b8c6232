// `fulcrum campaign ...` against a server in this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "stages/ingest/pool.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/pipeline/client/fake_daemon.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CampaignCommandTest : public ::testing::Test {
 protected:
  static ProgramResult Campaign(const FakeDaemon& daemon, std::vector<std::string> words) {
    words.insert(words.begin(), "campaign");
    words.insert(words.end(), {"--server", daemon.address()});
    return RunFulcrum(words);
  }

  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_.File(name)).rdbuf();
    return text.str();
  }

  TemporaryDirectory folder_;
};

TEST_F(CampaignCommandTest, LifeOfACampaign) {
  FakeDaemon daemon;
  const std::string file = folder_.Write("c.yaml", "name: digits\nclasses: [a, b]\nselection: {batch: 7}\n");
  const ProgramResult created = Campaign(daemon, {"create", file});
  EXPECT_EQ(created.exit_code, 0) << created.errors;
  EXPECT_THAT(created.output,
              AllOf(HasSubstr("name      digits\n"), HasSubstr("state     created\n"), HasSubstr("classes   a, b\n")));
  const ProgramResult again = Campaign(daemon, {"create", file});
  EXPECT_EQ(again.exit_code, 65);
  EXPECT_THAT(again.errors, HasSubstr("fulcrum campaign create: there is a campaign 'digits'"));

  EXPECT_THAT(Campaign(daemon, {"start", "digits"}).output, HasSubstr("state     waiting\n"));
  EXPECT_THAT(Campaign(daemon, {"pause", "digits"}).output, HasSubstr("state     paused\n"));
  EXPECT_THAT(Campaign(daemon, {"resume", "digits"}).output, HasSubstr("state     waiting\n"));
  EXPECT_THAT(Campaign(daemon, {"stop", "digits"}).output, HasSubstr("state     done\n"));
  EXPECT_THAT(daemon.ledger().calls, ElementsAre("StartCampaign digits", "PauseCampaign digits",
                                                 "ResumeCampaign digits", "StopCampaign digits"));
  EXPECT_THAT(Campaign(daemon, {"delete", "digits"}).output, HasSubstr("trash/digits"));
  const ProgramResult missing = Campaign(daemon, {"get", "digits"});
  EXPECT_EQ(missing.exit_code, 65);
  EXPECT_THAT(missing.errors, HasSubstr("fulcrum campaign get: no campaign 'digits'"));
}

TEST_F(CampaignCommandTest, WrongFileIsRefusedBeforeTheServerIsAsked) {
  FakeDaemon daemon;
  const ProgramResult result = Campaign(daemon, {"create", folder_.Write("c.yaml", "nmae: x\nseed: -1\n")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("2 problems"), HasSubstr("did you mean 'name'?"), HasSubstr("line 2")));
  EXPECT_THAT(Campaign(daemon, {"list"}).output, StartsWith("There are no campaigns"));
}

TEST_F(CampaignCommandTest, ListPutsPagesTogetherAsTableOrJson) {
  FakeDaemon daemon;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    daemon.AddCampaign(std::string("state: CAMPAIGN_STATE_WAITING round: 3 labels: 120 accuracy: 0.9371 name: '") +
                       name + "'");
  }
  const std::vector<std::string> lines = absl::StrSplit(Campaign(daemon, {"list"}).output, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "NAME  STATE    ROUND  LABELS  LEASED  OPEN  POOL  ACCURACY");
  EXPECT_EQ(lines[5], "e     waiting      3     120       0     0     0    93.71%");
  const auto json = nlohmann::json::parse(Campaign(daemon, {"list", "--json"}).output);
  ASSERT_EQ(json["campaigns"].size(), 5u);
  EXPECT_EQ(json["campaigns"][4]["name"], "e");
  EXPECT_EQ(json["campaigns"][4]["labels"], "120");
  EXPECT_EQ(json["campaigns"][4]["live_leases"], "0");
}

TEST_F(CampaignCommandTest, TextFromTheServerCannotSteerTheTerminal) {
  FakeDaemon daemon;
  daemon.AddCampaign("name: 'c' state: CAMPAIGN_STATE_FAILED state_reason: 'bad\\033]0;owned\\007 pool'");
  EXPECT_THAT(Campaign(daemon, {"get", "c"}).output,
              AllOf(HasSubstr("failed: bad\\x1b]0;owned\\x07 pool"), Not(HasSubstr("\033"))));
}

TEST_F(CampaignCommandTest, WatchGoesOnAcrossABrokenStreamUntilItIsDone) {
  FakeDaemon daemon({.watch = {{"campaign { name: 'c' state: CAMPAIGN_STATE_WAITING round: 1 }",
                                "batch { round: 1 items: 10 value: 4 bound: 5 seconds: 0.25 }"},
                               {"model { round: 1 labels: 10 warm: true accuracy: 0.875 changed_share: 0.02 }",
                                "campaign { name: 'c' state: CAMPAIGN_STATE_DONE state_reason: 'label budget' }"}}});
  daemon.AddCampaign("name: 'c'");
  const ProgramResult result = Campaign(daemon, {"watch", "c"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(absl::StrSplit(result.output, '\n', absl::SkipEmpty()),
              ElementsAre(HasSubstr("c is waiting (round 1"),
                          HasSubstr("round 1: 10 examples selected in 0.25 s, at least 80.0% of the best there is"),
                          HasSubstr("trained warm from 10 labels"), HasSubstr("c is done: label budget")));
}

TEST_F(CampaignCommandTest, WatchIsALinePerRoundAndAllOfItIfAsked) {
  const std::vector<std::string> events = {
      "campaign { name: 'c' state: CAMPAIGN_STATE_RUNNING }",
      "round_started { round: 2 labels: 10 }",
      "stage { round: 2 stage: STAGE_SCORE done: 1 total: 2 }",
      "stage { round: 2 stage: STAGE_SCORE done: 2 total: 2 }",
      "model { round: 2 labels: 10 accuracy: 0.875 }",
      "batch { round: 2 items: 10 seconds: 0.25 }",
      "campaign { name: 'c' state: CAMPAIGN_STATE_WAITING round: 2 }",
      "labels { labels: 11 round_settled: 1 round_items: 10 }",
      "items { added: 5 pool_rows: 105 }",
      "model { round: 3 labels: 20 accuracy: 0.9 }",
      "campaign { name: 'c' state: CAMPAIGN_STATE_DONE state_reason: 'label budget' }"};
  FakeDaemon daemon({.watch = {events, events}});
  daemon.AddCampaign("name: 'c'");
  EXPECT_THAT(absl::StrSplit(Campaign(daemon, {"watch", "c"}).output, '\n', absl::SkipEmpty()),
              ElementsAre(HasSubstr("c is running"),
                          AllOf(HasSubstr("round 2: 10 examples selected in 0.25 s; trained cold from 10 labels"),
                                HasSubstr("accuracy 87.50%")),
                          HasSubstr("5 examples added"), HasSubstr("round 3: trained"), HasSubstr("c is done")));
  const std::string all = Campaign(daemon, {"watch", "c", "--verbose"}).output;
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(all, '\n')), events.size());
  EXPECT_THAT(all, AllOf(HasSubstr("round 2: score 2 of 2"), HasSubstr("1 of 10 of this round settled")));
}

TEST_F(CampaignCommandTest, WatchOfAFailedCampaignFailsWithTheReason) {
  FakeDaemon daemon({.watch = {{"campaign { name: 'c' state: CAMPAIGN_STATE_FAILED state_reason: 'disk full' }"}}});
  daemon.AddCampaign("name: 'c'");
  const ProgramResult result = Campaign(daemon, {"watch", "c", "--json"});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("'c' failed: disk full"), HasSubstr("fulcrum campaign start c")));
  EXPECT_EQ(nlohmann::json::parse(result.output)["campaign"]["state"], "CAMPAIGN_STATE_FAILED");
}

// As of `fulcrum export`.
constexpr char kExportHeader[] =
    "sequence,kind,id,label,annotator,time,lease_id,epoch,slot,round,cost,late,request_id,counts,item_state,decision,"
    "agreement,confidence,annotator_accuracy,suggested";

TEST_F(CampaignCommandTest, UpdateSendsTheFieldsAndTheirNames) {
  FakeDaemon daemon;
  daemon.AddCampaign("name: 'c'");
  const ProgramResult result =
      Campaign(daemon, {"update", "c", "stop.labels=500", "labeling.lease_time=20m", "question="});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(daemon.ledger().calls,
              ElementsAre("UpdateCampaign labeling { lease_time { seconds: 1200 } } stop { labels: 500 } | "
                          "paths: \"stop.labels\" paths: \"labeling.lease_time\" paths: \"question\""));
  const ProgramResult wrong = Campaign(daemon, {"update", "c", "stop.lables=1"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.errors, HasSubstr("did you mean 'labels'"));
  EXPECT_EQ(Campaign(daemon, {"update", "c", "stop.labels"}).exit_code, 2);
}

TEST_F(CampaignCommandTest, ExportWritesCsvAndParquetWithTheSameLabels) {
  FakeDaemon daemon({.items = 3});
  daemon.AddCampaign("name: 'c'");
  const std::string oracle = folder_.Write("oracle.csv", "id,label\n0,neg\n1,pos\n2,neg\n");
  ASSERT_EQ(
      RunFulcrum({"work", "--campaign", "c", "--annotator", "a", "--server", daemon.address(), "--oracle", oracle})
          .exit_code,
      0);
  ASSERT_EQ(Campaign(daemon, {"export", "c", "--out", folder_.File("l.csv")}).exit_code, 0);
  EXPECT_THAT(
      absl::StrSplit(Read("l.csv"), '\n'),
      ElementsAre(kExportHeader,
                  "1,label,0,neg,\"a,na\",2023-11-14T22:13:20.000000Z,0,0,0,3,0.5,false,,true,labeled,neg,1,,,",
                  "2,label,1,pos,\"a,na\",2023-11-14T22:13:20.000000Z,0,0,0,3,0.5,false,,true,labeled,pos,1,,,",
                  "3,label,2,neg,\"a,na\",2023-11-14T22:13:20.000000Z,0,0,0,3,0.5,false,,true,labeled,neg,1,,,", ""));
  const ProgramResult parquet = Campaign(daemon, {"export", "c", "--out", folder_.File("l.parquet")});
  ASSERT_EQ(parquet.exit_code, 0) << parquet.errors;
  const auto read_back = ingest::LoadKnownLabels(folder_.File("l.parquet"));
  ASSERT_TRUE(read_back.ok()) << read_back.status();
  ASSERT_EQ(read_back->size(), 3u);
  EXPECT_EQ((*read_back)[1].id, "1");
  EXPECT_EQ((*read_back)[1].label, "pos");
}

TEST_F(CampaignCommandTest, ExportOfNothingIsAHeadingAndAMissingCampaignLeavesNoFile) {
  FakeDaemon daemon;
  daemon.AddCampaign("name: 'c'");
  EXPECT_EQ(Campaign(daemon, {"export", "c"}).output, absl::StrCat(kExportHeader, "\n"));
  EXPECT_EQ(Campaign(daemon, {"export", "x", "--out", folder_.File("x.csv")}).exit_code, 65);
  EXPECT_FALSE(std::ifstream(folder_.File("x.csv")).good());
}

TEST_F(CampaignCommandTest, ImportIsRepeatedUnderOneIdAndKeepsItsSource) {
  FakeDaemon daemon({.lost_answers = 1});
  const std::string file = folder_.Write("gold.csv", "id,label\nx,pos\ny,neg\n");
  const ProgramResult result = Campaign(daemon, {"import-labels", "c", file});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "2 labels imported\n");
  const FakeLedger ledger = daemon.ledger();
  EXPECT_EQ(ledger.imported, (std::map<std::string, std::string>{{"x", "pos"}, {"y", "neg"}}));
  EXPECT_EQ(ledger.import_source, "gold.csv");
  EXPECT_EQ(ledger.calls_of_request.size(), 1u);
  EXPECT_EQ(ledger.calls_of_request.begin()->second, 2);
}

TEST_F(CampaignCommandTest, UnreachableServerSaysWhatToDo) {
  const ProgramResult result = RunFulcrum({"campaign", "list", "--server", "127.0.0.1:1"});
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("cannot reach a server at 127.0.0.1:1"), HasSubstr("fulcrum serve")));
}

TEST_F(CampaignCommandTest, UnknownWordsGetAHintWithTheirFullName) {
  const ProgramResult word = RunFulcrum({"campaign", "craete"});
  EXPECT_EQ(word.exit_code, 2);
  EXPECT_THAT(word.errors, AllOf(HasSubstr("unknown command 'craete'; did you mean 'create'?"),
                                 HasSubstr("'fulcrum campaign --help'")));
  const ProgramResult option = RunFulcrum({"campaign", "list", "--jsn"});
  EXPECT_THAT(option.errors, AllOf(HasSubstr("unknown option '--jsn'; did you mean '--json'?"),
                                   HasSubstr("'fulcrum campaign list --help'")));
  EXPECT_EQ(RunFulcrum({"campaign"}).exit_code, 2);
}

}  // namespace
}  // namespace fulcrum::testing
