#include "tests/unit/pipeline/client/fake_daemon.h"

#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <deque>
#include <mutex>
#include <utility>

#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "fulcrum/v1/operation_service.grpc.pb.h"
#include "pipeline/commands/command_line.h"

namespace fulcrum::testing {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

struct FakeDaemon::Books {
  explicit Books(FakeDaemonOptions given) : options(std::move(given)) {
    for (int i = 0; i < options.items; ++i) open.push_back(std::to_string(i));
  }

  Status CheckToken(const ServerContext& context) const {
    const auto entry = context.client_metadata().find("authorization");
    const bool known = entry != context.client_metadata().end() && entry->second == "Bearer " + options.token;
    return options.token.empty() || known ? Status::OK : Status(StatusCode::UNAUTHENTICATED, "no such token");
  }

  /// Does what the request wants the first time, gives the same answer every time, and loses some of the answers.
  template <typename Request, typename Response, typename Effect>
  Status Once(const ServerContext& context, const std::string& call, const Request& request, Response& response,
              const Effect& effect) {
    if (const Status status = CheckToken(context); !status.ok()) return status;
    const std::lock_guard lock(mutex);
    ledger.calls.push_back(call);
    auto& [content, answer] = answers[request.request_id()];
    if (++ledger.calls_of_request[request.request_id()] == 1) {
      content = request.SerializeAsString();
      effect(response);
      answer = response.SerializeAsString();
    } else if (content != request.SerializeAsString()) {
      ledger.errors.push_back(call + ": a request id came again with another content");
      return Status(StatusCode::ALREADY_EXISTS, "another content");
    }
    response.ParseFromString(answer);
    const bool lost = ledger.calls_of_request[request.request_id()] <= options.lost_answers;
    return lost ? Status(StatusCode::UNAVAILABLE, "the answer was lost") : Status::OK;
  }

  const FakeDaemonOptions options;
  std::mutex mutex;
  FakeLedger ledger;
  std::map<std::string, std::pair<std::string, std::string>> answers;
  std::deque<std::string> open;
  std::map<std::int64_t, std::string> item_of_lease;
  std::int64_t last_lease = 0;
  std::map<std::string, v1::Campaign> campaigns;
  std::map<std::string, v1::Operation> operations;
  std::size_t streams = 0;
};

class FakeDaemon::Labeling final : public v1::LabelingService::Service {
 public:
  explicit Labeling(std::shared_ptr<Books> books) : books_(std::move(books)) {}

  Status AcquireTasks(ServerContext* context, const v1::AcquireTasksRequest* request,
                      v1::AcquireTasksResponse* response) override {
    return books_->Once(*context, "AcquireTasks", *request, *response, [&](v1::AcquireTasksResponse& answer) {
      while (!books_->open.empty() && answer.tasks_size() < request->max_tasks()) {
        v1::Task& task = *answer.add_tasks();
        task.set_lease_id(++books_->last_lease);
        task.set_epoch(books_->last_lease);
        task.set_item_id(books_->open.front());
        task.set_payload("payload of " + books_->open.front());
        for (const std::string& name : books_->options.classes) task.add_classes(name);
        books_->item_of_lease[books_->last_lease] = books_->open.front();
        books_->open.pop_front();
      }
      answer.set_campaign_over(answer.tasks().empty() && books_->item_of_lease.empty());
    });
  }

  Status SubmitLabels(ServerContext* context, const v1::SubmitLabelsRequest* request,
                      v1::SubmitLabelsResponse* response) override {
    return books_->Once(*context, "SubmitLabels", *request, *response, [&](v1::SubmitLabelsResponse& answer) {
      for (const v1::Label& label : request->labels()) {
        auto& result = *answer.add_results();
        if (label.value() == "refused") result.mutable_status()->set_code(StatusCode::FAILED_PRECONDITION);
        result.set_late(books_->item_of_lease.erase(label.lease().lease_id()) == 0);
        books_->ledger.values_of_item[label.item_id()].push_back(label.value());
      }
    });
  }

  Status SkipTasks(ServerContext* context, const v1::SkipTasksRequest* request,
                   v1::SkipTasksResponse* response) override {
    return books_->Once(*context, "SkipTasks", *request, *response, [&](v1::SkipTasksResponse& answer) {
      for (const v1::Skip& skip : request->skips()) {
        answer.add_results();
        const std::string item = books_->item_of_lease[skip.lease().lease_id()];
        books_->ledger.skips[item] = v1::SkipReason_Name(skip.reason());
        books_->item_of_lease.erase(skip.lease().lease_id());
      }
    });
  }

  Status ReleaseTasks(ServerContext* context, const v1::ReleaseTasksRequest* request,
                      v1::ReleaseTasksResponse* response) override {
    return books_->Once(*context, "ReleaseTasks", *request, *response, [&](v1::ReleaseTasksResponse& answer) {
      for (int i = 0; i < request->leases_size(); ++i) answer.add_results();
      books_->ledger.released += request->leases_size();
    });
  }

  Status RenewLeases(ServerContext* context, const v1::RenewLeasesRequest* request,
                     v1::RenewLeasesResponse* response) override {
    return books_->Once(*context, "RenewLeases", *request, *response, [&](v1::RenewLeasesResponse& answer) {
      for (int i = 0; i < request->leases_size(); ++i) answer.add_results();
      books_->ledger.renewed += request->leases_size();
    });
  }

 private:
  const std::shared_ptr<Books> books_;
};

class FakeDaemon::Campaigns final : public v1::CampaignService::Service {
 public:
  explicit Campaigns(std::shared_ptr<Books> books) : books_(std::move(books)) {}

  Status CreateCampaign(ServerContext*, const v1::CreateCampaignRequest* request,
                        v1::CreateCampaignResponse* response) override {
    const std::lock_guard lock(books_->mutex);
    const std::string& name = request->spec().name();
    if (books_->campaigns.contains(name))
      return Status(StatusCode::ALREADY_EXISTS, "there is a campaign '" + name + "'");
    v1::Operation& operation = *response->mutable_operation();
    operation.set_name("create-" + name);
    operation.set_state(v1::OPERATION_STATE_RUNNING);
    v1::Campaign& campaign = *operation.mutable_result();
    campaign.set_name(name);
    *campaign.mutable_spec() = request->spec();
    campaign.set_state(v1::CAMPAIGN_STATE_CREATED);
    books_->campaigns[name] = campaign;
    books_->operations[operation.name()] = operation;
    return Status::OK;
  }

  Status UpdateCampaign(ServerContext*, const v1::UpdateCampaignRequest* request,
                        v1::UpdateCampaignResponse* response) override {
    const std::lock_guard lock(books_->mutex);
    books_->ledger.calls.push_back("UpdateCampaign " + request->spec().ShortDebugString() + " | " +
                                   request->update_mask().ShortDebugString());
    return Find(request->campaign(), *response->mutable_campaign());
  }

  Status GetCampaign(ServerContext* context, const v1::GetCampaignRequest* request,
                     v1::GetCampaignResponse* response) override {
    if (const Status status = books_->CheckToken(*context); !status.ok()) return status;
    const std::lock_guard lock(books_->mutex);
    return Find(request->campaign(), *response->mutable_campaign());
  }

  // Two a page, whatever is asked for.
  Status ListCampaigns(ServerContext*, const v1::ListCampaignsRequest* request,
                       v1::ListCampaignsResponse* response) override {
    const std::lock_guard lock(books_->mutex);
    for (auto at = books_->campaigns.upper_bound(request->page_token()); at != books_->campaigns.end(); ++at) {
      if (response->campaigns_size() == 2) {
        response->set_next_page_token(response->campaigns(1).name());
        break;
      }
      *response->add_campaigns() = at->second;
    }
    return Status::OK;
  }

  Status StartCampaign(ServerContext*, const v1::StartCampaignRequest* request,
                       v1::StartCampaignResponse* response) override {
    return Steer("StartCampaign", request->campaign(), v1::CAMPAIGN_STATE_WAITING, *response->mutable_campaign());
  }
  Status PauseCampaign(ServerContext*, const v1::PauseCampaignRequest* request,
                       v1::PauseCampaignResponse* response) override {
    return Steer("PauseCampaign", request->campaign(), v1::CAMPAIGN_STATE_PAUSED, *response->mutable_campaign());
  }
  Status ResumeCampaign(ServerContext*, const v1::ResumeCampaignRequest* request,
                        v1::ResumeCampaignResponse* response) override {
    return Steer("ResumeCampaign", request->campaign(), v1::CAMPAIGN_STATE_WAITING, *response->mutable_campaign());
  }
  Status StopCampaign(ServerContext*, const v1::StopCampaignRequest* request,
                      v1::StopCampaignResponse* response) override {
    return Steer("StopCampaign", request->campaign(), v1::CAMPAIGN_STATE_DONE, *response->mutable_campaign());
  }

  Status DeleteCampaign(ServerContext*, const v1::DeleteCampaignRequest* request,
                        v1::DeleteCampaignResponse* response) override {
    const std::lock_guard lock(books_->mutex);
    response->set_trash_folder("trash/" + request->campaign());
    return books_->campaigns.erase(request->campaign()) == 1 ? Status::OK
                                                             : Status(StatusCode::NOT_FOUND, "no campaign");
  }

  Status ImportLabels(ServerContext* context, const v1::ImportLabelsRequest* request,
                      v1::ImportLabelsResponse* response) override {
    return books_->Once(*context, "ImportLabels", *request, *response, [&](v1::ImportLabelsResponse& answer) {
      for (const auto& label : request->labels()) books_->ledger.imported[label.item_id()] = label.value();
      books_->ledger.import_source = request->source();
      answer.set_imported(request->labels_size());
    });
  }

  Status ExportLabels(ServerContext*, const v1::ExportLabelsRequest* request,
                      grpc::ServerWriter<v1::ExportLabelsResponse>* writer) override {
    v1::Campaign campaign;
    const std::lock_guard lock(books_->mutex);
    if (const Status status = Find(request->campaign(), campaign); !status.ok()) return status;
    std::int64_t sequence = 0;
    for (const auto& [item, values] : books_->ledger.values_of_item) {
      v1::ExportLabelsResponse page;
      v1::ExportedLabel& label = *page.add_labels();
      label.set_sequence(++sequence);
      label.set_item_id(item);
      label.set_value(values.back());
      label.set_annotator("a,na");
      label.mutable_time()->set_seconds(1'700'000'000);
      label.set_round(3);
      label.set_cost(0.5);
      label.set_kind(v1::LABEL_KIND_LABEL);
      label.set_counts(true);
      label.set_item_state(v1::ITEM_STATE_LABELED);
      label.set_decision(values.back());
      label.set_agreement(1);
      writer->Write(page);
    }
    return Status::OK;
  }

  Status WatchCampaign(ServerContext*, const v1::WatchCampaignRequest* request,
                       grpc::ServerWriter<v1::WatchCampaignResponse>* writer) override {
    const auto& watch = books_->options.watch;
    std::unique_lock lock(books_->mutex);
    if (books_->streams >= watch.size()) return Status(StatusCode::INTERNAL, "watched too often");
    const std::size_t stream = books_->streams++;
    books_->ledger.calls.push_back("WatchCampaign after " + std::to_string(request->after_sequence()));
    lock.unlock();
    for (const std::string& text : watch[stream]) {
      v1::WatchCampaignResponse response;
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, response.mutable_event()));
      writer->Write(response);
    }
    return stream + 1 < watch.size() ? Status(StatusCode::UNAVAILABLE, "restarting") : Status::OK;
  }

 private:
  Status Find(const std::string& name, v1::Campaign& campaign) const {
    const auto found = books_->campaigns.find(name);
    if (found == books_->campaigns.end()) return Status(StatusCode::NOT_FOUND, "no campaign '" + name + "'");
    campaign = found->second;
    return Status::OK;
  }

  Status Steer(const std::string& call, const std::string& name, v1::CampaignState state, v1::Campaign& campaign) {
    const std::lock_guard lock(books_->mutex);
    books_->ledger.calls.push_back(call + " " + name);
    if (const Status status = Find(name, campaign); !status.ok()) return status;
    campaign.set_state(state);
    books_->campaigns[name] = campaign;
    return Status::OK;
  }

  const std::shared_ptr<Books> books_;
};

// An operation ends when it was asked for twice.
class FakeDaemon::Operations final : public v1::OperationService::Service {
 public:
  explicit Operations(std::shared_ptr<Books> books) : books_(std::move(books)) {}

  Status GetOperation(ServerContext*, const v1::GetOperationRequest* request,
                      v1::GetOperationResponse* response) override {
    const std::lock_guard lock(books_->mutex);
    const auto found = books_->operations.find(request->operation());
    if (found == books_->operations.end()) return Status(StatusCode::NOT_FOUND, "no operation");
    *response->mutable_operation() = found->second;
    found->second.set_state(v1::OPERATION_STATE_SUCCEEDED);
    found->second.mutable_ended_at()->set_seconds(1);
    return Status::OK;
  }

 private:
  const std::shared_ptr<Books> books_;
};

struct FakeDaemon::Server {
  explicit Server(const std::shared_ptr<Books>& books) : labeling(books), campaigns(books), operations(books) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&labeling);
    builder.RegisterService(&campaigns);
    builder.RegisterService(&operations);
    server = builder.BuildAndStart();
  }

  Labeling labeling;
  Campaigns campaigns;
  Operations operations;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

FakeDaemon::FakeDaemon(FakeDaemonOptions options)
    : books_(std::make_shared<Books>(std::move(options))), server_(std::make_unique<Server>(books_)) {}

FakeDaemon::~FakeDaemon() {
  server_->server->Shutdown();
}

std::string FakeDaemon::address() const {
  return "127.0.0.1:" + std::to_string(server_->port);
}

FakeLedger FakeDaemon::ledger() const {
  const std::lock_guard lock(books_->mutex);
  return books_->ledger;
}

void FakeDaemon::ExpireLeases() {
  const std::lock_guard lock(books_->mutex);
  for (const auto& [lease, item] : books_->item_of_lease) books_->open.push_back(item);
  books_->item_of_lease.clear();
}

void FakeDaemon::AddCampaign(const std::string& text) {
  v1::Campaign campaign;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &campaign));
  const std::lock_guard lock(books_->mutex);
  books_->campaigns[campaign.name()] = campaign;
}

ProgramResult RunFulcrum(std::vector<std::string> words) {
  words.insert(words.begin(), "fulcrum");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  ProgramResult result;
  result.exit_code = pipeline::RunCommandLine(static_cast<int>(words.size()), arguments.data());
  result.output = ::testing::internal::GetCapturedStdout();
  result.errors = ::testing::internal::GetCapturedStderr();
  return result;
}

}  // namespace fulcrum::testing
