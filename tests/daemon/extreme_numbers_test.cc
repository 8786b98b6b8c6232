// Numbers at the ends of what a double can hold, in every place where a client of the daemon can put one: the
// specification, appended rows, rows to predict, costs. The answer is a result or a clear error, never NaN or a hang.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "stages/ingest/formats/table_conversion.h"
#include "tests/daemon/campaign_watch.h"
#include "tests/daemon/daemon_fixture.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::HasSubstr;

constexpr std::size_t kRows = 2000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNumbers[] = {std::numeric_limits<double>::quiet_NaN(),
                               kInfinity,
                               -kInfinity,
                               1e-320,
                               1e-155,
                               1e30,
                               1e308,
                               -0.0,
                               9007199254740992.0};
constexpr const char* kStrategies[] = {"dbalevs", "hybrid", "alevs",      "uncertainty", "quire",         "ted",
                                       "nearopt", "random", "lev-on-all", "top-lev",     "most-confident"};
constexpr const char* kEngines[] = {"auto", "dense", "krylov", "tiled", "landmark"};

/// Calls `use` with every field of type double of the message and of those in it, absent ones included, and its name.
template <typename Use>
void VisitDoubles(Message& message, const std::string& prefix, const Use& use) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_repeated()) continue;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) use(message, field, prefix + field.name());
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    VisitDoubles(*message.GetReflection()->MutableMessage(&message, &field), absl::StrCat(prefix, field.name(), "."),
                 use);
  }
}

std::vector<std::string> NamesOfDoubles() {
  v1::CampaignSpec spec;
  std::vector<std::string> names;
  VisitDoubles(spec, "", [&](Message&, const FieldDescriptor&, const std::string& name) { names.push_back(name); });
  return names;
}

class ExtremeNumbersTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    folder_.Write("pools/clouds.csv", NamedCloudsText(kRows));
    folder_.Write("pools/validation.csv", "id,label,f0,f1,f2,f3\na,neg,-1,-1,-1,-1\nb,pos,1,1,1,1\n");
    StartDaemon();
    client_ = std::make_unique<DaemonClient>(daemon_->port(), "");
  }

  /// A specification in which every number matters.
  static v1::CampaignSpec BaseSpec(const std::string& name) {
    v1::CampaignSpec spec = CloudSpec(name, 100);
    spec.mutable_pool()->set_id_column("id");
    spec.mutable_advance()->mutable_soft_time()->set_seconds(3600);
    spec.mutable_stop()->mutable_accuracy()->add_sources("validation.csv");
    spec.mutable_stop()->mutable_stable()->set_rounds(50);
    spec.mutable_stop()->mutable_plateau()->set_rounds(50);
    return spec;
  }

  void ImportLabels(const std::string& name, int count) const {
    grpc::ClientContext context;
    client_->Prepare(context);
    v1::ImportLabelsRequest request;
    request.set_name(name);
    request.set_source("test");
    request.set_request_id(NewRequestId());
    for (int row = 0; row < count; ++row) {
      request.add_labels()->set_item_id(absl::StrCat(row));
      request.mutable_labels(row)->set_value(AnswerTo(absl::StrCat(row)));
    }
    v1::ImportLabelsResponse response;
    EXPECT_TRUE(client_->campaigns().ImportLabels(&context, request, &response).ok());
  }

  /// Waits until the campaign has a batch after `round`, is done, or has failed.
  v1::Campaign WaitForBatch(const std::string& name, std::int64_t round) const {
    CampaignWatch watch(daemon_->port(), name);
    v1::CampaignEvent event;
    while (watch.Next(&event)) {
      if (!event.has_campaign()) continue;
      const v1::Campaign& campaign = event.campaign();
      const bool selected = campaign.state() == v1::CAMPAIGN_STATE_WAITING && campaign.round() > round;
      const bool over = campaign.state() == v1::CAMPAIGN_STATE_DONE || campaign.state() == v1::CAMPAIGN_STATE_FAILED;
      if (selected || over) return campaign;
    }
    ADD_FAILURE() << name << ": no batch and no error";
    return {};
  }

  v1::PredictResponse PredictRows(const std::string& name, const std::vector<double>& values, grpc::Status* status) {
    v1::PredictRequest request;
    request.set_name(name);
    request.add_item_ids("1");
    for (const double value : values) {
      v1::FeatureRow& row = *request.add_rows();
      for (const double number : {value, 1.0, 1.0, 1.0}) row.add_values(number);
    }
    v1::PredictResponse response;
    *status = client_->Predict(request, &response);
    return response;
  }

  void ExpectFinitePredictions(const std::string& name) {
    for (const double number : kNumbers) {
      grpc::Status status;
      const v1::PredictResponse response = PredictRows(name, {0.5, number}, &status);
      if (!status.ok()) {
        EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name << ": " << status.error_message();
        EXPECT_THAT(status.error_message(), HasSubstr("rows[1]")) << name;
        continue;
      }
      for (const v1::Prediction& prediction : response.predictions()) {
        for (const double value : prediction.decision_values()) EXPECT_TRUE(std::isfinite(value)) << name << number;
      }
    }
  }

  /// What became of a campaign with this specification.
  std::string RunOneRound(const v1::CampaignSpec& spec) {
    const grpc::Status created = client_->Create(spec);
    if (!created.ok()) {
      EXPECT_EQ(created.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << created.error_message();
      EXPECT_FALSE(created.error_message().empty());
      return "refused";
    }
    ImportLabels(spec.name(), 8);
    EXPECT_TRUE(client_->Start(spec.name()).ok());
    const v1::Campaign campaign = WaitForBatch(spec.name(), 0);
    if (campaign.state() == v1::CAMPAIGN_STATE_FAILED) {
      EXPECT_FALSE(campaign.state_reason().empty());
    } else {
      EXPECT_TRUE(campaign.state() == v1::CAMPAIGN_STATE_DONE || campaign.round_items() == 6) << campaign.round_items();
      ExpectFinitePredictions(spec.name());
    }
    EXPECT_TRUE(client_->Stop(spec.name()).ok());
    EXPECT_TRUE(client_->Delete(spec.name()).ok());
    return campaign.state() == v1::CAMPAIGN_STATE_FAILED ? "failed" : "selected";
  }

  std::string ToArrow(const std::string& text) {
    const std::string from = folder_.Write("rows.csv", text), to = folder_.File("rows.arrow");
    EXPECT_TRUE(ingest::ConvertTable({from}, to).ok());
    std::ifstream file(to, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::unique_ptr<DaemonClient> client_;
};

TEST_F(ExtremeNumbersTest, InEveryFieldOfTheSpecification) {
  std::map<std::string, int> outcomes;
  std::size_t number_of_campaign = 0;
  for (const std::string& name : NamesOfDoubles()) {
    for (const double number : kNumbers) {
      const std::size_t i = number_of_campaign++;
      v1::CampaignSpec spec = BaseSpec(absl::StrCat("c", i));
      spec.mutable_selection()->set_strategy(kStrategies[i % std::size(kStrategies)]);
      spec.mutable_selection()->set_engine(kEngines[i % std::size(kEngines)]);
      VisitDoubles(spec, "", [&](Message& message, const FieldDescriptor& field, const std::string& here) {
        if (here == name) message.GetReflection()->SetDouble(&message, &field, number);
      });
      if (name == "classifier.kernel.offset")
        spec.mutable_classifier()->mutable_kernel()->set_type(v1::KernelSpec::TYPE_POLY);
      if (name == "selection.kernel.offset")
        spec.mutable_selection()->mutable_kernel()->set_type(v1::KernelSpec::TYPE_POLY);
      const auto begun = std::chrono::steady_clock::now();
      const std::string outcome = RunOneRound(spec);
      ++outcomes[outcome];
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
      EXPECT_LT(seconds.count(), kUnderSanitizer ? 120 : 10) << spec.ShortDebugString() << ": " << outcome;
    }
  }
  for (const auto& [outcome, count] : outcomes) RecordProperty(outcome, count);
  EXPECT_GE(outcomes["refused"], 30);
  EXPECT_GE(outcomes["selected"], 10);
}

TEST_F(ExtremeNumbersTest, InAppendedRowsAndTheCampaignGoesOn) {
  for (const bool steep : {false, true}) {
    v1::CampaignSpec spec = BaseSpec(steep ? "steep" : "plain");
    if (steep) {
      spec.mutable_features()->add_normalize("none");
      spec.mutable_classifier()->mutable_kernel()->set_type(v1::KernelSpec::TYPE_POLY);
      spec.mutable_classifier()->mutable_kernel()->set_degree(10);
    }
    const grpc::Status created = client_->Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ImportLabels(spec.name(), 8);
    ASSERT_TRUE(client_->Start(spec.name()).ok());
    WaitForBatch(spec.name(), 0);
    int refused = 0;
    for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
      const std::string id = absl::StrCat("extreme", i);
      v1::AppendItemsResponse response;
      const grpc::Status status =
          client_->Append(spec.name(), NewRequestId(),
                          ToArrow(absl::StrCat("id,f0,f1,f2,f3\n", id, ",", kNumbers[i], ",1,1,1\n")), &response);
      if (status.ok()) {
        EXPECT_EQ(response.added() + response.rejected(), 1) << id;
        continue;
      }
      ++refused;
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << id << ": " << status.error_message();
      EXPECT_THAT(status.error_message(), HasSubstr(id));
    }
    // 1e30 is a valid number of the pool's type; only the steep kernel cannot take it.
    EXPECT_EQ(refused, steep ? 2 : 0) << spec.name();
    const v1::Campaign before = client_->Get(spec.name());
    WorkUntilOver(*client_, spec.name(), "ada", static_cast<std::size_t>(before.round_items()));
    const v1::Campaign after = WaitForBatch(spec.name(), before.round());
    EXPECT_EQ(after.state(), v1::CAMPAIGN_STATE_WAITING) << after.state_reason();
    ExpectFinitePredictions(spec.name());
  }
}

}  // namespace
}  // namespace fulcrum::testing
