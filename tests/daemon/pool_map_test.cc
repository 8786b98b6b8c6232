// The picture of a pool: refused with a reason if a kernel cannot be computed, and ended with the call.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/report_service.grpc.pb.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kMapRows = 600;  // twice as many as landmarks

class PoolMapTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }

  /// A pool of `kMapRows` rows in which one has this value, and the ids are its numbers.
  void WritePool(int huge_row, const std::string& value) const {
    std::string text = "id,f0,f1,label\n";
    for (int row = 0; row < kMapRows; ++row) {
      absl::StrAppend(&text, "row-", row, ",", row == huge_row ? value : absl::StrCat(row % 7), ",", row % 5, ",",
                      row % 2 == 0 ? "neg" : "pos", "\n");
    }
    folder_.Write("pools/huge.csv", text);
  }

  v1::CampaignSpec Spec(const std::string& name, int degree) const {
    v1::CampaignSpec spec = CloudSpec(name, 2);
    spec.mutable_pool()->set_sources(0, "huge.csv");
    spec.mutable_pool()->set_id_column("id");
    spec.mutable_pool()->set_label_column("label");
    spec.mutable_features()->add_normalize(v1::NORMALIZATION_NONE);
    v1::KernelSpec& kernel = *spec.mutable_selection()->mutable_kernel();
    kernel.set_type(v1::KernelSpec::TYPE_POLY);
    kernel.set_degree(degree);
    kernel.set_offset(1);
    return spec;
  }

  grpc::Status Map(const std::string& campaign, v1::GetPoolMapResponse* response, int points = 100) const {
    const auto stub = v1::ReportService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", daemon_->port()), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetPoolMapRequest request;
    request.set_campaign(campaign);
    request.set_max_points(points);
    return stub->GetPoolMap(&context, request, response);
  }
};

TEST_F(PoolMapTest, AKernelThatOverflowsIsRefusedWithTheExample) {
  WritePool(-1, "");
  ASSERT_TRUE(Client().Create(Spec("steep", 1000)).ok());
  v1::GetPoolMapResponse response;
  const grpc::Status status = Map("steep", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("the example 'row-"), HasSubstr("smaller degree")));
}

TEST_F(PoolMapTest, OneHugeExampleIsNamedWhereverItIs) {
  // Among so many rows some are landmarks, and some are only projected.
  for (const int row : {0, 1, 2, 3, 299, 300, 301, 302, 598, 599}) {
    WritePool(row, "1e38");
    const std::string name = absl::StrCat("huge-", row);
    ASSERT_TRUE(Client().Create(Spec(name, 3)).ok());
    v1::GetPoolMapResponse response;
    const grpc::Status status = Map(name, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << row;
    EXPECT_THAT(status.error_message(), HasSubstr(absl::StrCat("the example 'row-", row, "'")));
  }
}

TEST_F(PoolMapTest, OtherPoolsHaveFiniteCoordinates) {
  WritePool(-1, "");
  ASSERT_TRUE(Client().Create(Spec("plain", 3)).ok());
  v1::GetPoolMapResponse response;
  const grpc::Status status = Map("plain", &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.points_size(), 100);
  for (const v1::MapPoint& point : response.points()) {
    EXPECT_TRUE(std::isfinite(point.x()) && std::isfinite(point.y())) << point.item_id();
  }
  std::int64_t counted = 0;
  for (const v1::MapCell& cell : response.density().cells()) counted += cell.count();
  EXPECT_EQ(counted, response.density().projected_rows());
}

}  // namespace
}  // namespace fulcrum::testing
