// Campaigns whose specification has numbers at the ends of what a double can hold: refused, or they run two rounds, or
// they fail with a reason. With FULCRUM_EVERY_NUMBER in the environment every number is tried in every field; otherwise
// every field and every number is, but not every pair of them.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::size_t kManyRows = 2000;
constexpr std::size_t kOneOf = 4;
// No number makes a campaign of so few rows compute longer.
constexpr std::chrono::seconds kPatience = kUnderSanitizer ? std::chrono::seconds(100) : std::chrono::seconds(10);

const double kNumbers[] = {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           1e-320,
                           1e-155,
                           1e30,
                           1e308,
                           -0.0,
                           9007199254740992.0};

/// A field of the specification, and how to set it.
struct Place {
  std::string name;
  std::function<void(v1::CampaignSpec&, double)> set;
};

/// The fields below this message, which `find` gets of a specification.
void AddPlaces(const google::protobuf::Descriptor& type, const std::string& prefix,
               const std::function<Message*(Message*)>& find, std::vector<Place>& places) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    const std::string name = prefix + field->name();
    if (field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE || field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
      places.push_back({name, [find, field](v1::CampaignSpec& spec, double number) {
                          Message* const parent = find(&spec);
                          if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
                            parent->GetReflection()->SetDouble(parent, field, number);
                          } else {
                            parent->GetReflection()->SetFloat(parent, field, static_cast<float>(number));
                          }
                        }});
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
               field->message_type()->file() == v1::CampaignSpec::descriptor()->file()) {
      AddPlaces(
          *field->message_type(), name + ".",
          [find, field](Message* spec) {
            Message* const parent = find(spec);
            return parent->GetReflection()->MutableMessage(parent, field);
          },
          places);
    }
  }
}

std::vector<Place> Places() {
  std::vector<Place> places;
  AddPlaces(
      *v1::CampaignSpec::descriptor(), "", [](Message* spec) { return spec; }, places);
  return places;
}

/// What a number needs around it to be used.
void Prepare(const std::string& field, v1::CampaignSpec& spec) {
  if (field.ends_with("kernel.offset")) {
    auto& kernel = field.starts_with("selection") ? *spec.mutable_selection()->mutable_kernel()
                                                  : *spec.mutable_classifier()->mutable_kernel();
    kernel.set_type(v1::KernelSpec::TYPE_POLY);
  }
  if (field.starts_with("stop.accuracy")) {
    spec.mutable_stop()->mutable_accuracy()->add_sources("held_out.csv");
    spec.mutable_stop()->mutable_accuracy()->set_target(0.999);
  }
}

class ExtremeSpecTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    folder_.Write("pools/many.csv", CloudsText(kManyRows));
    folder_.Write("pools/held_out.csv", "label,f0,f1,f2,f3\nneg,-1,-1,-1,-1\npos,1,1,1,1\n");
    StartDaemon();
  }

  /// Labels until two rounds are over or the campaign has ended. Every state that is not about to change has a reason.
  void Run(const std::string& name) {
    DaemonClient client = Client();
    ASSERT_TRUE(client.Start(name).ok());
    for (const auto begun = std::chrono::steady_clock::now();;) {
      const v1::Campaign campaign = client.Get(name);
      ASSERT_LT(std::chrono::steady_clock::now() - begun, kPatience) << campaign.ShortDebugString();
      if (campaign.state() == v1::CAMPAIGN_STATE_FAILED) {
        EXPECT_NE(campaign.state_reason(), "");
        return;
      }
      if (campaign.state() == v1::CAMPAIGN_STATE_DONE) return;
      v1::AcquireTasksRequest acquire = TasksWanted(name, "ada", 6);
      acquire.mutable_wait()->set_seconds(0);
      acquire.mutable_wait()->set_nanos(20'000'000);
      v1::AcquireTasksResponse tasks;
      const grpc::Status acquired = client.Acquire(acquire, &tasks);
      if (!acquired.ok()) return;  // the budget is spent, or the annotator is paused
      if (tasks.tasks_size() == 0) continue;
      v1::SubmitLabelsRequest submit;
      submit.set_campaign(name);
      submit.set_annotator("ada");
      submit.set_request_id(NewRequestId());
      for (const v1::Task& task : tasks.tasks()) AddAnswer(task, AnswerTo(task.item_id()), submit);
      v1::SubmitLabelsResponse results;
      ASSERT_TRUE(client.Submit(submit, &results).ok());
    }
  }
};

TEST_F(ExtremeSpecTest, EveryNumberInEveryFieldIsRefusedOrRuns) {
  const std::vector<Place> places = Places();
  ASSERT_GE(places.size(), 12u);
  const bool everything = std::getenv("FULCRUM_EVERY_NUMBER") != nullptr;
  int refused = 0, run = 0;
  DaemonClient client = Client();
  for (std::size_t p = 0; p < places.size(); ++p) {
    for (std::size_t n = 0; n < std::size(kNumbers); ++n) {
      if (!everything && (p + n) % kOneOf != 0) continue;
      const std::string name = absl::StrCat("extreme-", p, "-", n);
      SCOPED_TRACE(absl::StrCat(places[p].name, " = ", kNumbers[n]));
      v1::CampaignSpec spec = CloudSpec(name, 2);
      spec.mutable_pool()->set_sources(0, "many.csv");
      Prepare(places[p].name, spec);
      places[p].set(spec, kNumbers[n]);
      const grpc::Status created = client.Create(spec);
      if (!created.ok()) {
        EXPECT_EQ(created.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << created.error_message();
        EXPECT_NE(created.error_message(), "");
        ++refused;
        continue;
      }
      Run(name);
      if (::testing::Test::HasFatalFailure()) return;
      ++run;
      // A campaign that waits, say, for a second annotator is over too.
      client.Stop(name);
      EXPECT_TRUE(client.Delete(name).ok());
    }
  }
  std::printf("%d refused, %d run\n", refused, run);
  EXPECT_GT(refused, 10);
  EXPECT_GT(run, 3);
}

TEST_F(ExtremeSpecTest, AKernelThatIsNotFiniteFailsTheCampaignAndNothingElse) {
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("other", 4)).ok());
  v1::CampaignSpec spec = CloudSpec("degree", 4);
  spec.mutable_selection()->set_strategy("uncertainty");
  v1::ClassifierSpec& classifier = *spec.mutable_classifier();
  classifier.mutable_kernel()->set_type(v1::KernelSpec::TYPE_POLY);
  classifier.mutable_kernel()->set_degree(1000);
  spec.mutable_features()->add_normalize(v1::NORMALIZATION_NONE);
  const grpc::Status created = client.Create(spec);
  if (created.ok()) {
    Run("degree");
    const v1::Campaign campaign = client.Get("degree");
    EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_FAILED) << campaign.ShortDebugString();
    EXPECT_THAT(campaign.state_reason(), ::testing::HasSubstr("kernel"));
  } else {
    EXPECT_EQ(created.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(created.error_message(), ::testing::HasSubstr("kernel"));
  }
  ASSERT_TRUE(client.Start("other").ok());
  EXPECT_EQ(WorkUntilOver(client, "other", "ada", 8).size(), 8u);
}

}  // namespace
}  // namespace fulcrum::testing
