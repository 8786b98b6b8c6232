// Hostile clients against the real program: it rejects them and continues to serve others.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "absl/strings/str_cat.h"
#include "pipeline/server/access_control.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"
#include "tests/daemon/support/raw_connections.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

using pipeline::Role;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kMostConnections = 1000;

class AttackTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    std::filesystem::create_directories(folder_.File("data"));
    auto tokens = pipeline::TokenStore::Open(folder_.File("data"));
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    admin_token_ = *(*tokens)->Create("root", Role::kAdmin);
    ada_token_ = *(*tokens)->Create("ada", Role::kAnnotator);
    eve_token_ = *(*tokens)->Create("eve", Role::kAnnotator);
    reader_token_ = *(*tokens)->Create("rita", Role::kReader);
    folder_.Write("serve.yaml", absl::StrCat("data: ", folder_.File("data"), "\npools: ", folder_.File("pools"),
                                             "\nlimits: {connections: ", kMostConnections, "}\n"));
    process_ = std::make_unique<DaemonProcess>(std::vector<std::string>{"--config", folder_.File("serve.yaml")});
    process_->Spawn();
    admin_ = std::make_unique<DaemonClient>(process_->port(), admin_token_);
    ASSERT_TRUE(admin_->Create(CloudSpec("clouds", 4)).ok());
    ASSERT_TRUE(admin_->Start("clouds").ok());
  }
  void TearDown() override { EXPECT_TRUE(process_->Lives()) << "the daemon did not survive"; }

  DaemonClient ClientOf(const std::string& token) const { return DaemonClient(process_->port(), token); }
  /// Sends a raw message to any method.
  grpc::StatusCode Call(const std::string& method, const std::string& token, const grpc::ByteBuffer& message) const {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    grpc::GenericStub stub(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", process_->port()),
                                                     grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &message, &response,
                   [&done](grpc::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get().error_code();
  }
  grpc::StatusCode CallEmpty(const google::protobuf::MethodDescriptor& method, const std::string& token) const {
    const grpc::Slice nothing("");
    return Call(absl::StrCat("/", method.service()->full_name(), "/", method.name()), token,
                grpc::ByteBuffer(&nothing, 1));
  }
  /// All methods of fulcrum.v1 that require a token.
  static std::vector<const google::protobuf::MethodDescriptor*> Methods() {
    std::vector<const google::protobuf::MethodDescriptor*> methods;
    for (const char* name : {"fulcrum.v1.CampaignService", "fulcrum.v1.LabelingService"}) {
      const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
      for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i));
    }
    return methods;
  }

  std::string admin_token_, ada_token_, eve_token_, reader_token_;
  std::unique_ptr<DaemonProcess> process_;
  std::unique_ptr<DaemonClient> admin_;
};

TEST_F(AttackTest, NoMethodAnswersWithoutAToken) {
  for (const auto* method : Methods()) {
    for (const std::string token : {"", "fulcrum_forged", "'; DROP TABLE token; --"}) {
      EXPECT_EQ(CallEmpty(*method, token), grpc::StatusCode::UNAUTHENTICATED) << method->full_name() << " " << token;
    }
  }
}

TEST_F(AttackTest, NoMethodAnswersTheWrongRole) {
  const std::set<std::string> readable = {"GetCampaign", "ListCampaigns", "ExportLabels", "WatchCampaign",
                                          "GetModel",    "Predict",       "GetPayload"};
  for (const auto* method : Methods()) {
    const bool labeling = method->service()->name() == "LabelingService";
    if (!labeling) {
      EXPECT_EQ(CallEmpty(*method, ada_token_), grpc::StatusCode::PERMISSION_DENIED) << method->full_name();
    }
    const auto reader = CallEmpty(*method, reader_token_);
    if (readable.contains(method->name())) {
      EXPECT_NE(reader, grpc::StatusCode::PERMISSION_DENIED) << method->full_name();
    } else {
      EXPECT_EQ(reader, grpc::StatusCode::PERMISSION_DENIED) << method->full_name();
    }
  }
}

TEST_F(AttackTest, AnotherAnnotatorsLeaseIsOutOfReach) {
  DaemonClient ada = ClientOf(ada_token_), eve = ClientOf(eve_token_);
  const v1::Task task = ada.AcquireOne("clouds", "");
  EXPECT_EQ(eve.SubmitOne("clouds", "", task, "pos"), grpc::StatusCode::PERMISSION_DENIED);
  v1::LeaseRef lease;
  lease.set_lease_id(task.lease_id());
  lease.set_epoch(task.epoch());
  const auto code_of = [&](auto method, auto request, auto response, auto add) {
    request.set_campaign("clouds");
    request.set_request_id(NewRequestId());
    add(request);
    grpc::ClientContext context;
    eve.Prepare(context);
    EXPECT_TRUE((eve.labeling().*method)(&context, request, &response).ok());
    return response;
  };
  using Stub = v1::LabelingService::Stub;
  const auto renewed = code_of(&Stub::RenewLeases, v1::RenewLeasesRequest(), v1::RenewLeasesResponse(),
                               [&](auto& request) { *request.add_leases() = lease; });
  EXPECT_EQ(renewed.results(0).status().code(), grpc::StatusCode::PERMISSION_DENIED);
  const auto released = code_of(&Stub::ReleaseTasks, v1::ReleaseTasksRequest(), v1::ReleaseTasksResponse(),
                                [&](auto& request) { *request.add_leases() = lease; });
  EXPECT_EQ(released.results(0).code(), grpc::StatusCode::PERMISSION_DENIED);
  const auto skipped = code_of(&Stub::SkipTasks, v1::SkipTasksRequest(), v1::SkipTasksResponse(), [&](auto& request) {
    *request.add_skips()->mutable_lease() = lease;
    request.mutable_skips(0)->set_reason(v1::SKIP_REASON_BAD_ITEM);
  });
  EXPECT_EQ(skipped.results(0).code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ada.SubmitOne("clouds", "", task, "pos"), 0);
  const auto changed =
      code_of(&Stub::ChangeLabels, v1::ChangeLabelsRequest(), v1::ChangeLabelsResponse(), [&](auto& request) {
        request.add_changes()->set_item_id(task.item_id());
        request.mutable_changes(0)->set_withdraw(true);
      });
  EXPECT_EQ(changed.results(0).status().code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(admin_->Get("clouds").labels(), 1);
}

TEST_F(AttackTest, ReplayedAndForgedRequestIdsChangeNothing) {
  DaemonClient ada = ClientOf(ada_token_), eve = ClientOf(eve_token_);
  const v1::AcquireTasksRequest wanted = TasksWanted("clouds", "", 2);
  v1::AcquireTasksResponse first, replayed, forged;
  ASSERT_TRUE(ada.Acquire(wanted, &first).ok());
  ASSERT_TRUE(ada.Acquire(wanted, &replayed).ok());
  EXPECT_EQ(first.SerializeAsString(), replayed.SerializeAsString());
  // Eve reuses Ada's request id: she gets tasks of her own, and Ada's request is not affected.
  ASSERT_TRUE(eve.Acquire(wanted, &forged).ok());
  ASSERT_EQ(forged.tasks_size(), 2);
  EXPECT_NE(forged.tasks(0).lease_id(), first.tasks(0).lease_id());

  const v1::SubmitLabelsRequest answer = AnswerOf("clouds", "", first.tasks(0), "pos");
  v1::SubmitLabelsResponse result;
  ASSERT_TRUE(ada.Submit(answer, &result).ok());
  const std::int64_t sequence = result.results(0).sequence();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(ada.Submit(answer, &result).ok());
    EXPECT_EQ(result.results(0).sequence(), sequence);
  }
  v1::SubmitLabelsRequest altered = answer;
  altered.mutable_labels(0)->set_value("neg");
  ASSERT_TRUE(ada.Submit(altered, &result).ok());
  EXPECT_EQ(result.results(0).status().code(), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(eve.Submit(answer, &result).ok());
  EXPECT_EQ(result.results(0).status().code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(admin_->Get("clouds").labels(), 1);
}

TEST_F(AttackTest, AMessageOfAGigabyteDoesNotFillTheServersMemory) {
  const std::size_t before = process_->ResidentBytes();
  // One slice, a thousand times, so that the sender does not need a gigabyte either.
  const grpc::Slice slice(std::string(kMiB, 'x'));
  const std::vector<grpc::Slice> slices(1024, slice);
  const grpc::ByteBuffer message(slices.data(), slices.size());
  for (const char* method : {"/fulcrum.v1.CampaignService/CreateCampaign", "/fulcrum.v1.LabelingService/SubmitLabels",
                             "/fulcrum.v1.CampaignService/AppendItems", "/fulcrum.v1.LabelingService/Work"}) {
    EXPECT_THAT(Call(method, admin_token_, message),
                AnyOf(grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::CANCELLED, grpc::StatusCode::UNAVAILABLE))
        << method;
  }
  EXPECT_TRUE(kUnderSanitizer || process_->ResidentBytes() < before + 512 * kMiB) << process_->ResidentBytes();
  EXPECT_EQ(ClientOf(admin_token_).Get("clouds").name(), "clouds");
}

TEST_F(AttackTest, ThousandsOfHalfOpenConnectionsDoNotLockOthersOut) {
  const std::size_t wanted = RawConnections::MostPossible(10'000);
  RawConnections half_open(process_->port());
  for (std::size_t i = 0; i < wanted; ++i) half_open.Open(i % 3 == 0 ? "PRI * HTTP/2.0\r\n" : "");
  RecordProperty("half_open_connections", static_cast<int>(wanted));
  EXPECT_GT(half_open.size(), kMostConnections);
  // Existing connections stay open, the daemon holds no more than its limit, and a new client is accepted after the
  // idle connections time out.
  EXPECT_EQ(admin_->Get("clouds").name(), "clouds");
  EXPECT_LT(process_->OpenFiles(), kMostConnections + 200);
  DaemonClient late = ClientOf(ada_token_);
  late.AcquireOne("clouds", "");
}

TEST_F(AttackTest, FilesThatRunOutAndComeBackDoNotEndTheListening) {
  if (kUnderSanitizer) GTEST_SKIP() << "a sanitizer looks at objects through a pipe, for which there are no files";
  // Wait for the first batch: a round that cannot write its files would fail.
  ClientOf(eve_token_).AcquireOne("clouds", "");
  ASSERT_TRUE(process_->LimitFiles(process_->OpenFiles() + 3));
  RawConnections many(process_->port());
  for (int i = 0; i < 200; ++i) many.Open("");
  // Existing connections are still served.
  EXPECT_EQ(admin_->Get("clouds").name(), "clouds");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  DaemonClient turned_away = ClientOf(admin_token_);
  v1::GetCampaignResponse response;
  v1::GetCampaignRequest request;
  request.set_campaign("clouds");
  EXPECT_FALSE(turned_away.campaigns().GetCampaign(&context, request, &response).ok());
  many.CloseAll();
  ASSERT_TRUE(process_->LimitFiles(4096));
  DaemonClient late = ClientOf(ada_token_);
  late.AcquireOne("clouds", "");
}

TEST_F(AttackTest, SlowReadersDelayNoOtherClient) {
  ASSERT_TRUE(admin_->Create(CloudSpec("large", 2)).ok());
  // An export that is far larger than the buffers between the server and a client that does not read.
  const std::string long_source(4000, 's');
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    admin_->Prepare(context);
    v1::ImportLabelsRequest request;
    request.set_campaign("large");
    request.set_source(absl::StrCat(i, long_source));
    request.set_request_id(NewRequestId());
    for (int row = 0; row < 190; ++row) {
      request.add_labels()->set_item_id(absl::StrCat(row));
      request.mutable_labels(row)->set_value("pos");
    }
    v1::ImportLabelsResponse response;
    ASSERT_TRUE(admin_->campaigns().ImportLabels(&context, request, &response).ok());
  }
  const std::size_t before = process_->ResidentBytes();
  DaemonClient reader = ClientOf(reader_token_);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ExportLabelsResponse>>> exports;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchCampaignResponse>>> watches;
  for (int i = 0; i < 40; ++i) {
    v1::ExportLabelsRequest exported;
    exported.set_campaign("large");
    v1::WatchCampaignRequest watched;
    watched.set_campaign("clouds");
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    reader.Prepare(*contexts.back());
    if (i % 2 == 0) exports.push_back(reader.campaigns().ExportLabels(contexts.back().get(), exported));
    if (i % 2 == 1) watches.push_back(reader.campaigns().WatchCampaign(contexts.back().get(), watched));
  }
  // Those that have received their first message are being served.
  v1::ExportLabelsResponse label;
  v1::WatchCampaignResponse event;
  int served = 0;
  for (auto& stream : exports) served += stream->Read(&label) ? 1 : 0;
  EXPECT_EQ(served, pipeline::AccessControl::kMostHeldStreams) << "the others are refused";
  for (auto& stream : watches) EXPECT_TRUE(stream->Read(&event));
  EXPECT_EQ(WorkUntilOver(*admin_, "clouds", "root").size(), 24u);
  EXPECT_EQ(admin_->Export("large").size(), 3800u);
  EXPECT_TRUE(kUnderSanitizer || process_->ResidentBytes() < before + 128 * kMiB) << process_->ResidentBytes();
  for (auto& context : contexts) context->TryCancel();
  for (auto& stream : exports) stream->Finish();
  for (auto& stream : watches) stream->Finish();
}

TEST_F(AttackTest, NamesLeadNowhere) {
  const std::vector<std::string> names = {"../evil",
                                          "..",
                                          ".",
                                          "",
                                          "a/b",
                                          "/etc/passwd",
                                          "-x",
                                          "_x",
                                          "A",
                                          "a b",
                                          "ü",
                                          std::string("a\0b", 3),
                                          "%2e%2e%2fevil",
                                          "a\n",
                                          std::string(64, 'a')};
  for (const std::string& name : names) {
    const grpc::Status created = admin_->Create(CloudSpec(name, 2));
    EXPECT_THAT(created.error_code(), AnyOf(grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::INTERNAL)) << name;
    v1::Campaign campaign;
    v1::AppendItemsResponse appended;
    v1::ModelDescription description;
    std::string bytes;
    EXPECT_NE(admin_->Delete(name).error_code(), grpc::StatusCode::OK) << name;
    EXPECT_NE(admin_->TryGet(name, &campaign).error_code(), grpc::StatusCode::OK) << name;
    EXPECT_NE(admin_->Append(name, "id", "bytes", &appended).error_code(), grpc::StatusCode::OK) << name;
    EXPECT_NE(admin_->Model(name, 0, &description, &bytes).error_code(), grpc::StatusCode::OK) << name;
  }
  std::filesystem::create_symlink("/etc", folder_.File("pools/link"));
  for (const char* source : {"../data/tokens.db", "/etc/passwd", "link/passwd", "*/../../data/*", "clouds.csv/../../x",
                             "file:///etc/passwd"}) {
    v1::CampaignSpec pool = CloudSpec("tricky", 2), validation = CloudSpec("tricky", 2);
    pool.mutable_pool()->set_sources(0, source);
    validation.mutable_stop()->mutable_accuracy()->add_sources(source);
    for (const auto& spec : {pool, validation}) {
      const grpc::Status status = admin_->Create(spec);
      EXPECT_THAT(status.error_code(), AnyOf(grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::NOT_FOUND))
          << source;
      EXPECT_THAT(status.error_message(), ::testing::Not(HasSubstr("root:"))) << source;
    }
  }
  std::set<std::string> campaigns, others;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.File("data/campaigns"))) {
    campaigns.insert(entry.path().filename().string());
  }
  EXPECT_THAT(campaigns, ::testing::ElementsAre("clouds"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("data/evil")));
}

}  // namespace
}  // namespace fulcrum::testing
