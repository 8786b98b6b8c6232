// Pools that are sent to the daemon instead of being read from its disk.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "fulcrum/v1/upload_service.grpc.pb.h"
#include "stages/core/files.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/process.h"

namespace fulcrum::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string CrcOf(const std::string& bytes) {
  Crc32 crc;
  crc.Add(bytes);
  return crc.ToText();
}

class UploadTest : public DaemonTest {
 protected:
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::UploadService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto channel =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", daemon_->port()), grpc::InsecureChannelCredentials());
    return ((*v1::UploadService::NewStub(channel)).*method)(&context, request, response);
  }
  grpc::Status Create(const std::string& file_name, std::size_t size, const std::string& request_id,
                      v1::Upload* upload) {
    v1::CreateUploadRequest request;
    request.set_file_name(file_name);
    request.set_size_bytes(static_cast<std::int64_t>(size));
    request.set_request_id(request_id);
    v1::CreateUploadResponse response;
    const grpc::Status status = Call(&v1::UploadService::Stub::CreateUpload, request, &response);
    *upload = response.upload();
    return status;
  }
  v1::Upload Created(const std::string& file_name, std::size_t size) {
    v1::Upload upload;
    const grpc::Status status = Create(file_name, size, NewRequestId(), &upload);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return upload;
  }
  grpc::Status Write(v1::Upload& upload, std::size_t offset, const std::string& chunk,
                     const std::string& checksum = "") {
    v1::WriteUploadRequest request;
    request.set_upload(upload.id());
    request.set_offset_bytes(static_cast<std::int64_t>(offset));
    request.set_chunk(chunk);
    request.set_checksum(checksum);
    v1::WriteUploadResponse response;
    const grpc::Status status = Call(&v1::UploadService::Stub::WriteUpload, request, &response);
    if (status.ok()) upload = response.upload();
    return status;
  }
  grpc::Status Get(const std::string& id, v1::Upload* upload) {
    v1::GetUploadRequest request;
    request.set_upload(id);
    v1::GetUploadResponse response;
    const grpc::Status status = Call(&v1::UploadService::Stub::GetUpload, request, &response);
    *upload = response.upload();
    return status;
  }
  grpc::Status Delete(const std::string& id) {
    v1::DeleteUploadRequest request;
    request.set_upload(id);
    v1::DeleteUploadResponse response;
    return Call(&v1::UploadService::Stub::DeleteUpload, request, &response);
  }
  v1::Upload Sent(const std::string& file_name, const std::string& bytes) {
    v1::Upload upload = Created(file_name, bytes.size());
    const grpc::Status status = Write(upload, 0, bytes, CrcOf(bytes));
    EXPECT_TRUE(status.ok()) << status.error_message();
    return upload;
  }
  static v1::CampaignSpec SpecOf(const std::string& name, const v1::Upload& upload) {
    v1::CampaignSpec spec = CloudSpec(name, 2);
    spec.mutable_pool()->set_sources(0, absl::StrCat("upload:", upload.id()));
    return spec;
  }
  std::vector<std::string> UploadFolders() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.File("data/uploads")))
      names.push_back(entry.path().string());
    return names;
  }
};

TEST_F(UploadTest, ACampaignFromAnUploadSelectsWhatOneFromAFileSelects) {
  StartDaemon();
  DaemonClient client = Client();
  const std::string bytes = CloudsText(200);
  const v1::Upload upload = Sent("my [clouds]*.csv", bytes);
  EXPECT_EQ(upload.state(), v1::UPLOAD_STATE_COMPLETE);
  EXPECT_EQ(upload.received_bytes(), static_cast<std::int64_t>(bytes.size()));
  v1::CampaignSpec spec = SpecOf("uploaded", upload);
  spec.mutable_stop()->mutable_accuracy()->add_sources(
      absl::StrCat("upload:", Sent("held.csv", "f0,f1,f2,f3,label\n1,1,1,1,pos\n-1,-1,-1,-1,neg\n").id()));
  const grpc::Status created = client.Create(spec);
  ASSERT_TRUE(created.ok()) << created.error_message();
  ASSERT_TRUE(client.Create(CloudSpec("from-file", 2)).ok());
  for (const char* name : {"uploaded", "from-file"}) {
    ASSERT_TRUE(client.Start(name).ok());
    WorkUntilOver(client, name, "ada");
  }
  EXPECT_THAT(client.ExportedBatches("uploaded"), SizeIs(2));
  EXPECT_EQ(client.ExportedBatches("uploaded"), client.ExportedBatches("from-file"));
  EXPECT_TRUE(client.Get("uploaded").has_accuracy());
  // A campaign has its own copy.
  ASSERT_TRUE(Delete(upload.id()).ok());
  ASSERT_TRUE(Delete(upload.id()).ok()) << "a repeat has no effect";
  StopDaemon();
  StartDaemon();
  EXPECT_EQ(Client().Get("uploaded").pool_rows(), 200);
}

TEST_F(UploadTest, ChunksCanBeRepeatedAndAreContinuedAfterARestart) {
  StartDaemon();
  const std::string bytes = CloudsText(200);
  v1::Upload upload = Created("clouds.csv", bytes.size());
  const std::string id = upload.id();
  ASSERT_TRUE(Write(upload, 0, bytes.substr(0, 100)).ok());
  ASSERT_TRUE(Write(upload, 0, bytes.substr(0, 100)).ok()) << "the same chunk again";
  EXPECT_EQ(upload.received_bytes(), 100);
  ASSERT_TRUE(Write(upload, 50, bytes.substr(50, 100)).ok()) << "half of it again";
  EXPECT_EQ(upload.received_bytes(), 150);
  EXPECT_EQ(Write(upload, 50, std::string(10, '#')).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  const grpc::Status gap = Write(upload, 200, bytes.substr(200, 10));
  EXPECT_EQ(gap.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_THAT(gap.error_message(), HasSubstr("continue at 150"));
  EXPECT_EQ(Write(upload, 150, bytes).error_code(), grpc::StatusCode::OUT_OF_RANGE) << "beyond the announced size";
  EXPECT_EQ(Write(upload, 150, bytes.substr(150, 10), CrcOf(bytes)).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Client().Create(SpecOf("early", upload)).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  for (const std::string& folder : UploadFolders()) {
    for (const auto& file : fs::directory_iterator(folder)) {
      EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write) << file;
    }
  }
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(Get(id, &upload).ok());
  EXPECT_EQ(upload.received_bytes(), 160);
  EXPECT_EQ(upload.state(), v1::UPLOAD_STATE_RECEIVING);
  ASSERT_TRUE(Write(upload, 160, bytes.substr(160), CrcOf(bytes)).ok());
  EXPECT_EQ(upload.state(), v1::UPLOAD_STATE_COMPLETE);
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(Get(id, &upload).ok());
  EXPECT_EQ(upload.state(), v1::UPLOAD_STATE_COMPLETE);
  ASSERT_TRUE(Write(upload, 160, bytes.substr(160), CrcOf(bytes)).ok()) << "a repeat of the last chunk";
  EXPECT_EQ(Write(upload, 160, bytes.substr(160), "crc32:00000000").error_code(), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(Client().Create(SpecOf("late", upload)).ok());
}

TEST_F(UploadTest, AWrongChecksumIsFoundAndTheUploadCanBeSentAgain) {
  StartDaemon();
  const std::string bytes = CloudsText(200);
  std::string damaged = bytes;
  damaged[500] ^= 1;
  v1::Upload upload = Created("clouds.csv", bytes.size());
  const grpc::Status refused = Write(upload, 0, damaged, CrcOf(bytes));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(refused.error_message(), HasSubstr("send it again"));
  ASSERT_TRUE(Get(upload.id(), &upload).ok());
  EXPECT_EQ(upload.received_bytes(), 0);
  ASSERT_TRUE(Write(upload, 0, bytes, CrcOf(bytes)).ok());
  ASSERT_TRUE(Client().Create(SpecOf("clouds", upload)).ok());
}

TEST_F(UploadTest, CreatingTakesEffectOnceAndRefusesWhatCannotBeAPool) {
  StartDaemon();
  v1::Upload first, again;
  ASSERT_TRUE(Create("a.parquet", 10, "id-1", &first).ok());
  ASSERT_TRUE(Create("a.parquet", 10, "id-1", &again).ok());
  EXPECT_EQ(first.id(), again.id());
  EXPECT_EQ(Create("a.parquet", 11, "id-1", &again).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  for (const char* name : {"", "pool.exe", "../pool.csv", "folder/pool.csv", "csv"}) {
    EXPECT_EQ(Create(name, 10, NewRequestId(), &again).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name;
  }
  EXPECT_EQ(Create("a.csv", 0, NewRequestId(), &again).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  for (const char* name : {"pool.CSV", "pool.csv.gz", "x.svm.zst", "part=1.arrow"}) {
    EXPECT_TRUE(Create(name, 10, NewRequestId(), &again).ok()) << name;
  }
  const grpc::Status unknown = Client().Create([] {
    v1::CampaignSpec spec = CloudSpec("clouds", 2);
    spec.mutable_pool()->set_sources(0, "upload:000000000000000000000000");
    return spec;
  }());
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("there is no upload"));
}

TEST_F(UploadTest, WhatIsWrongWithAFileIsReportedUnderItsOwnName) {
  StartDaemon();
  const v1::Upload upload = Sent("bad rows.csv", "f0,f1\n1,2\n3,nan\n");
  const grpc::Status refused = Client().Create(SpecOf("bad", upload));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(refused.error_message(), AllOf(HasSubstr("bad rows.csv"), ::testing::Not(HasSubstr("/uploads/"))));
}

TEST_F(UploadTest, UnusedUploadsAreRemovedAndTheirTotalSizeIsLimited) {
  pipeline::DaemonOptions options = Options();
  options.uploads.most_bytes = 1000;
  options.uploads.keep_time = std::chrono::seconds(3600);
  StartDaemon(options);
  v1::Upload upload;
  ASSERT_TRUE(Create("a.csv", 600, NewRequestId(), &upload).ok());
  const std::string id = upload.id();
  v1::Upload other;
  const grpc::Status full = Create("b.csv", 600, NewRequestId(), &other);
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(full.error_message(), HasSubstr("uploads.limit"));
  ASSERT_TRUE(Delete(id).ok());
  EXPECT_THAT(UploadFolders(), IsEmpty());
  ASSERT_TRUE(Create("b.csv", 600, NewRequestId(), &other).ok());
  StopDaemon();
  // As if nothing had been written for two hours.
  for (const std::string& folder : UploadFolders()) {
    fs::last_write_time(folder + "/rows.csv", fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  fs::create_directories(folder_.File("data/uploads/0123456789abcdef01234567"));  // left by a killed process
  StartDaemon(options);
  EXPECT_EQ(Get(other.id(), &upload).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(UploadFolders(), IsEmpty());
}

TEST_F(UploadTest, TheCommandLineUploads) {
  StartDaemon();
  const std::string server = absl::StrCat("127.0.0.1:", daemon_->port());
  const std::string pool = folder_.Write("local.csv", CloudsText(60'000));  // several chunks
  const ProcessResult sent = RunProcess({FULCRUM_PROGRAM, "upload", pool, "--server", server});
  ASSERT_EQ(sent.exit_code, 0) << sent.standard_error;
  EXPECT_THAT(sent.standard_output, StartsWith("upload:"));
  v1::CampaignSpec spec = CloudSpec("by-name", 1);
  spec.mutable_pool()->set_sources(0, std::string(absl::StripSuffix(sent.standard_output, "\n")));
  ASSERT_TRUE(Client().Create(spec).ok());

  const std::string yaml = folder_.Write(
      "spec.yaml",
      absl::StrCat("name: in-one-step\npool: {sources: ['", folder_.File("local.csv"), "']}\nclasses: [neg, pos]\n"));
  EXPECT_NE(RunProcess({FULCRUM_PROGRAM, "campaign", "create", yaml, "--server", server}).exit_code, 0)
      << "the file is not in the server's folder of pools";
  const ProcessResult created =
      RunProcess({FULCRUM_PROGRAM, "campaign", "create", yaml, "--upload", "--server", server});
  EXPECT_EQ(created.exit_code, 0) << created.standard_error;
  EXPECT_EQ(Client().Get("in-one-step").pool_rows(), 60'000);
  EXPECT_THAT(UploadFolders(), SizeIs(1)) << "those of 'create --upload' are deleted";
  EXPECT_NE(RunProcess({FULCRUM_PROGRAM, "upload", folder_.File("absent.csv"), "--server", server}).exit_code, 0);
}

}  // namespace
}  // namespace fulcrum::testing
