#include "pipeline/campaign/field_limits.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "fulcrum/v1/access_service.pb.h"
#include "fulcrum/v1/annotator_service.pb.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "fulcrum/v1/item_service.pb.h"
#include "fulcrum/v1/labeling_service.pb.h"
#include "fulcrum/v1/model_service.pb.h"
#include "fulcrum/v1/operation_service.pb.h"
#include "fulcrum/v1/pool_service.pb.h"
#include "fulcrum/v1/report_service.pb.h"
#include "fulcrum/v1/server_service.pb.h"
#include "fulcrum/v1/upload_service.pb.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<const google::protobuf::Descriptor*> RequestTypes() {
  // Files whose messages are not used are not part of the program.
  [[maybe_unused]] const google::protobuf::Descriptor* const linked[] = {
      v1::CreateCampaignRequest::descriptor(), v1::AcquireTasksRequest::descriptor(),
      v1::ListItemsRequest::descriptor(),      v1::ListOperationsRequest::descriptor(),
      v1::GetVersionRequest::descriptor(),     v1::GetCallerRequest::descriptor(),
      v1::GetPoolMapRequest::descriptor(),     v1::ListPoolFilesRequest::descriptor(),
      v1::CreateUploadRequest::descriptor(),   v1::AcquireModelTaskRequest::descriptor(),
      v1::ListAnnotatorsRequest::descriptor()};
  std::vector<const google::protobuf::Descriptor*> types;
  for (const auto& entry : std::filesystem::directory_iterator(FULCRUM_SOURCE "/proto/fulcrum/v1")) {
    const std::string name = "fulcrum/v1/" + entry.path().filename().string();
    const auto* const file = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(name);
    EXPECT_NE(file, nullptr) << "include the header of " << name;
    if (file == nullptr) continue;
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        types.push_back(file->service(s)->method(m)->input_type());
      }
    }
  }
  return types;
}

TEST(FieldLimits, CoverEveryNumberOfEveryRequest) {
  ASSERT_GE(RequestTypes().size(), 30u);
  for (const auto* type : RequestTypes()) {
    EXPECT_THAT(FieldsWithoutLimit(*type), IsEmpty()) << "add a line to the table in field_limits.cc for each";
  }
}

TEST(FieldLimits, MissANumberThatIsNotInTheTable) {
  google::protobuf::FileDescriptorProto file;
  file.set_name("new_fields.proto");
  file.set_syntax("proto3");
  auto& message = *file.add_message_type();
  message.set_name("NewRequest");
  auto& field = *message.add_field();
  field.set_name("amount");
  field.set_number(1);
  field.set_type(google::protobuf::FieldDescriptorProto::TYPE_INT32);
  field.set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
  google::protobuf::DescriptorPool pool;
  const auto* built = pool.BuildFile(file);
  ASSERT_NE(built, nullptr);
  EXPECT_THAT(FieldsWithoutLimit(*built->message_type(0)), ElementsAre("NewRequest.amount"));
}

TEST(FieldLimits, NameExistingFieldsOnceAndHaveARange) {
  std::set<std::string> names;
  for (const FieldLimit& limit : FieldLimits()) {
    EXPECT_TRUE(names.insert(limit.field).second) << limit.field;
    const auto* field =
        google::protobuf::DescriptorPool::generated_pool()->FindFieldByName(std::string("fulcrum.v1.") + limit.field);
    EXPECT_NE(field, nullptr) << limit.field;
    EXPECT_TRUE(std::isfinite(limit.low) && std::isfinite(limit.high) && limit.low < limit.high) << limit.field;
  }
}

TEST(FieldLimits, ReportThePathTheValueAndTheRange) {
  v1::CampaignSpec spec;
  spec.mutable_labeling()->set_overlap(2147483647);
  spec.mutable_labeling()->mutable_lease_time()->set_seconds(80'000'000LL * 3600);
  spec.mutable_classifier()->mutable_kernel()->set_sigma(std::nan(""));
  spec.mutable_selection()->set_tau(0);
  spec.mutable_stop()->set_cost(std::numeric_limits<double>::infinity());
  std::vector<std::string> lines;
  for (const FieldProblem& problem : FindNumbersOutOfRange(spec)) lines.push_back(problem.field + " " + problem.what);
  EXPECT_THAT(lines,
              ElementsAre("classifier.kernel.sigma is nan; it must be at least 1e-100 and at most 1e+100",
                          "selection.tau is 0; it must be above 0 and at most 1",
                          "labeling.overlap is 2147483647; it must be at least 0 and at most 1000",
                          "labeling.lease_time is 288000000000s; it must be at least 0.001s and at most 31622400s",
                          "stop.cost is inf; it must be at least 0 and at most 1e+15"));
}

TEST(FieldLimits, CountElementsOfLists) {
  v1::SubmitLabelsRequest request;
  request.add_labels()->mutable_lease()->set_epoch(1);
  request.add_labels()->mutable_lease()->set_epoch(-5);
  const absl::Status status = CheckNumbers(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("labels[1].lease.epoch is -5"));
  v1::PredictRequest predict;
  predict.add_rows()->add_values(1);
  predict.mutable_rows(0)->add_values(-std::numeric_limits<double>::infinity());
  EXPECT_THAT(std::string(CheckNumbers(predict).message()), HasSubstr("rows[0].values[1] is -inf"));
}

TEST(FieldLimits, RefuseImpossibleDurationsAndUnknownEnumValues) {
  v1::AcquireTasksRequest request;
  request.set_max_tasks(1);
  EXPECT_TRUE(CheckNumbers(request).ok());
  request.mutable_wait()->set_seconds(std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(std::string(CheckNumbers(request).message()), HasSubstr("wait is 9.22337203685478e+18s"));
  request.mutable_wait()->set_seconds(1);
  request.mutable_wait()->set_nanos(-1);
  EXPECT_THAT(std::string(CheckNumbers(request).message()), HasSubstr("wait is not a valid duration"));
  v1::CampaignSpec spec;
  spec.mutable_selection()->mutable_kernel()->set_type(static_cast<v1::KernelSpec::Type>(77));
  EXPECT_THAT(std::string(CheckNumbers(spec).message()),
              AllOf(HasSubstr("selection.kernel.type is 77"), HasSubstr("Type")));
}

}  // namespace
}  // namespace fulcrum::pipeline
