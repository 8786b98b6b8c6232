#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/client/campaign_text.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Every field there is. The expectation is written in protobuf's own text format.
constexpr char kEverything[] = R"(
name: digits
pool:
  sources: [pools/a.parquet, "pools/b*.csv"]
  id_column: image
  label_column: digit
classes: ["3", 5, no]
question: Which digit is this?
features:
  normalize: [zscore, unit]
classifier:
  kernel: {type: poly, offset: 1.5, degree: 3}
  c: 10
  full_every: 5
selection:
  strategy: dbalevs
  batch: 25
  kernel:
    type: rbf
    sigma: 2e-1
  tau: 0.9
  alpha: 0
  leverage_scale: mean
  engine: krylov
labeling:
  overlap: 3
  margin: 2
  most_votes: 7
  lease_time: 1h30m
  most_attempts: 4
  dispute_time: 24h
advance:
  soft_time: 90s
  soft_share: 0.8
  hard_time: 2h
  hard_minimum: 2
stop:
  labels: 5000000000
  rounds: 20
  accuracy: {sources: [held_out.csv], target: 0.97}
  stable: {rounds: 3, share: 0.002}
retention: {scores: 20, models: 10}
seed: 18446744073709551615
)";

constexpr char kEverythingAsText[] = R"(
name: "digits"
pool { sources: "pools/a.parquet" sources: "pools/b*.csv" id_column: "image" label_column: "digit" }
classes: "3" classes: "5" classes: "no"
question: "Which digit is this?"
features { normalize: NORMALIZATION_ZSCORE normalize: NORMALIZATION_UNIT }
classifier { kernel { type: TYPE_POLY offset: 1.5 degree: 3 } c: 10 full_every: 5 }
selection {
  strategy: "dbalevs" batch: 25 kernel { type: TYPE_RBF sigma: 0.2 } tau: 0.9 alpha: 0 leverage_scale: LEVERAGE_SCALE_MEAN
  engine: ENGINE_KRYLOV
}
labeling { overlap: 3 margin: 2 most_votes: 7 lease_time { seconds: 5400 } most_attempts: 4
           dispute_time { seconds: 86400 } }
advance { soft_time { seconds: 90 } soft_share: 0.8 hard_time { seconds: 7200 } hard_minimum: 2 }
stop {
  labels: 5000000000 rounds: 20 accuracy { sources: "held_out.csv" target: 0.97 } stable { rounds: 3 share: 0.002 }
}
retention { scores: 20 models: 10 }
seed: 18446744073709551615
)";

std::string ErrorOf(const std::string& yaml) {
  const auto spec = ParseCampaignYaml(yaml, "c.yaml");
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

TEST(SpecYamlTest, EveryFieldArrivesUnderItsName) {
  const auto spec = ParseCampaignYaml(kEverything, "c.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  v1::CampaignSpec expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kEverythingAsText, &expected));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*spec, expected)) << spec->DebugString();
}

TEST(SpecYamlTest, ExampleUsesEveryFieldOfTheSpecification) {
  v1::CampaignSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kEverythingAsText, &spec));
  const auto* descriptor = v1::CampaignSpec::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    const bool set = field->is_repeated() ? spec.GetReflection()->FieldSize(spec, field) > 0
                                          : spec.GetReflection()->HasField(spec, field);
    EXPECT_TRUE(set) << field->name() << " is new: add it to the example above";
  }
}

TEST(SpecYamlTest, AbsentFieldsStayAbsent) {
  const auto spec = ParseCampaignYaml("name: a\nselection: {}\n", "c.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->has_selection());
  EXPECT_FALSE(spec->selection().has_batch());
  EXPECT_FALSE(spec->has_labeling());
}

TEST(SpecYamlTest, AllProblemsComeAtOnceWithLineAndPath) {
  const std::string error = ErrorOf(R"(name: [a]
pool: {sorces: [x]}
classes: a
selection:
  batch: 2.5
  tau: much
  kernel: {type: rfb}
labeling: {lease_time: 90}
stop: 7
seed: -1
name: again
)");
  EXPECT_THAT(
      absl::StrSplit(error, '\n'),
      ElementsAre("c.yaml has 10 problems:",  //
                  "  line 1: name: is a list; it must be a text",
                  "  line 2: pool.sorces: there is no such field; did you mean 'sources'?",
                  "  line 3: classes: is 'a'; it must be a list, such as [a, b]",
                  "  line 5: selection.batch: is '2.5'; it must be a whole number from -2147483648 to 2147483647",
                  "  line 6: selection.tau: is 'much'; it must be a number",
                  "  line 7: selection.kernel.type: is 'rfb'; it must be one of rbf, linear, poly, cosine; "
                  "did you mean 'rbf'?",
                  "  line 8: labeling.lease_time: is '90'; it must be a duration such as 90s, 10m, 2h or 1h30m",
                  "  line 9: stop: is '7'; it must be a map of 'name: value' fields",
                  "  line 10: seed: is '-1'; it must be a whole number from 0 to 18446744073709551615",
                  "  line 11: name: is given a second time, first in line 1; remove one of them"));
}

TEST(SpecYamlTest, UnknownFieldWithoutANearOneListsThoseThereAre) {
  EXPECT_THAT(ErrorOf("pool: {zzz: 1}"),
              HasSubstr("line 1: pool.zzz: there is no such field; the fields here are sources, id_column"));
}

TEST(SpecYamlTest, ElementsOfListsAreNamedByTheirNumber) {
  EXPECT_THAT(ErrorOf("classes: [a, {b: c}]"), HasSubstr("line 1: classes[1]: is a map; it must be a text"));
}

TEST(SpecYamlTest, FieldWithoutAValueIsAProblem) {
  EXPECT_THAT(ErrorOf("question:\n"), HasSubstr("question: is nothing; it must be a text"));
}

class BadDurationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BadDurationTest, IsRefused) {
  EXPECT_THAT(ErrorOf(std::string("labeling: {lease_time: ") + GetParam() + "}"),
              AllOf(HasSubstr("labeling.lease_time: is "), HasSubstr("it must be a duration")));
}

INSTANTIATE_TEST_SUITE_P(Durations, BadDurationTest,
                         ::testing::Values("90", "-5s", "inf", "5 parsecs", "1h30", "soon", "[1s]", "1000000000000h"));

TEST(SpecYamlTest, FractionsOfSecondsAreKept) {
  const auto spec = ParseCampaignYaml("labeling: {lease_time: 1.25s}", "c.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->labeling().lease_time().seconds(), 1);
  EXPECT_EQ(spec->labeling().lease_time().nanos(), 250'000'000);
}

TEST(SpecYamlTest, OverlapMayBeLeftToTheServer) {
  const auto spec = ParseCampaignYaml(
      "labeling: {consensus: dawid-skene, overlap: auto, max_votes: 5, confidence: 0.95, gold: {rate: 0.2}, "
      "quality: {pause_below: 0.7, min_votes: 30}}",
      "c.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->labeling().consensus(), v1::CONSENSUS_DAWID_SKENE);
  EXPECT_TRUE(spec->labeling().has_overlap());
  EXPECT_EQ(spec->labeling().overlap(), 0);
  EXPECT_EQ(spec->labeling().max_votes(), 5);
  EXPECT_EQ(spec->labeling().confidence(), 0.95);
  EXPECT_EQ(spec->labeling().gold().rate(), 0.2);
  EXPECT_EQ(spec->labeling().quality().pause_below(), 0.7);
  EXPECT_THAT(ErrorOf("labeling: {max_votes: auto}"), HasSubstr("labeling.max_votes: is 'auto'"));
}

TEST(SpecYamlTest, UnspecifiedIsNoValueOfAnEnumeration) {
  EXPECT_THAT(ErrorOf("classifier: {kernel: {type: unspecified}}"), HasSubstr("it must be one of rbf, linear"));
}

TEST(SpecYamlTest, NumbersThatAreNotFiniteAreRefused) {
  EXPECT_THAT(ErrorOf("selection: {tau: .nan, alpha: inf}"),
              AllOf(HasSubstr("selection.tau: is '.nan'"), HasSubstr("selection.alpha: is 'inf'")));
}

TEST(SpecYamlTest, TextThatIsNoYamlSaysWhere) {
  EXPECT_THAT(ErrorOf("name: [a\nb: }"), AllOf(StartsWith("c.yaml is not valid YAML"), HasSubstr("line 2")));
  EXPECT_THAT(ErrorOf(""), HasSubstr("the file: is nothing; it must be a map"));
}

TEST(SpecYamlTest, FilesAreReadAndMissingOnesNamed) {
  const fulcrum::testing::TemporaryDirectory folder;
  const auto spec = LoadCampaignYaml(folder.Write("c.yaml", "name: from-file\n"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name(), "from-file");
  EXPECT_THAT(std::string(LoadCampaignYaml(folder.File("no.yaml")).status().message()), HasSubstr("no.yaml"));
}

}  // namespace
}  // namespace fulcrum::pipeline
