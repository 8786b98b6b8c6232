// A process with a model of its own, as a client of a daemon. Used by one thread at a time.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fulcrum/v1/model_service.grpc.pb.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {

/// A process with a model: logistic in the sum of the features, with a slope that depends on the number of labels.
class ModelProcess {
 public:
  ModelProcess(int port, std::string campaign, std::string name)
      : client_(port, ""),
        stub_(v1::ModelService::NewStub(
            grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()))),
        campaign_(std::move(campaign)),
        name_(std::move(name)) {}

  grpc::Status Acquire(v1::AcquireModelTaskResponse* response, int wait_seconds = 10) {
    grpc::ClientContext context;
    client_.Prepare(context);
    v1::AcquireModelTaskRequest request;
    request.set_campaign(campaign_);
    request.set_process(name_);
    request.set_request_id(NewRequestId());
    request.mutable_wait()->set_seconds(wait_seconds);
    return stub_->AcquireModelTask(&context, request, response);
  }
  v1::ModelTask AcquireOne() {
    for (int attempt = 0; attempt < 10; ++attempt) {
      v1::AcquireModelTaskResponse response;
      const grpc::Status status = Acquire(&response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (response.has_task()) return response.task();
    }
    ADD_FAILURE() << "there was no model task";
    return {};
  }
  grpc::Status Renew(const v1::ModelTask& task) {
    grpc::ClientContext context;
    v1::RenewModelTaskRequest request;
    v1::RenewModelTaskResponse response;
    Fill(task, request);
    return stub_->RenewModelTask(&context, request, &response);
  }
  grpc::Status Release(const v1::ModelTask& task) {
    grpc::ClientContext context;
    v1::ReleaseModelTaskRequest request;
    v1::ReleaseModelTaskResponse response;
    Fill(task, request);
    return stub_->ReleaseModelTask(&context, request, &response);
  }
  std::vector<std::int64_t> LabeledRows(const v1::ModelTask& task) {
    std::vector<std::int64_t> rows;
    // A daemon that was just started has to publish the task again.
    for (int attempt = 0; attempt < 500; ++attempt) {
      const grpc::Status status = ReadLabels(task, rows);
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
        EXPECT_TRUE(status.ok()) << status.error_message();
        return rows;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "the task was not published";
    return rows;
  }
  std::vector<float> Rows(const v1::ModelTask& task) {
    grpc::ClientContext context;
    v1::GetModelRowsRequest request;
    request.set_campaign(campaign_);
    request.set_task_id(task.task_id());
    auto stream = stub_->GetModelRows(&context, request);
    std::vector<float> values;
    v1::GetModelRowsResponse part;
    while (stream->Read(&part)) {
      EXPECT_EQ(part.first_row() * task.features(), static_cast<std::int64_t>(values.size()));
      const std::size_t before = values.size();
      values.resize(before + part.plain().values().size() / sizeof(float));
      std::memcpy(values.data() + before, part.plain().values().data(), part.plain().values().size());
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return values;
  }
  std::vector<float> Predict(const v1::ModelTask& task) {
    const auto slope = 0.5F + 0.1F * static_cast<float>(LabeledRows(task).size());
    const std::vector<float> rows = Rows(task);
    std::vector<float> probabilities;
    for (std::size_t i = 0; i < rows.size(); i += 4) {
      const float p = 1 / (1 + std::exp(-slope * (rows[i] + rows[i + 1] + rows[i + 2] + rows[i + 3])));
      probabilities.push_back(1 - p);
      probabilities.push_back(p);
    }
    return probabilities;
  }

  using Edit = std::function<void(std::vector<v1::SubmitPredictionsRequest>&)>;
  grpc::Status Submit(const v1::ModelTask& task, const std::vector<float>& probabilities,
                      v1::SubmitPredictionsResponse* response, const std::string& request_id = NewRequestId(),
                      const Edit& edit = {}) {
    std::vector<v1::SubmitPredictionsRequest> messages(3);
    Fill(task, *messages[0].mutable_begin());
    messages[0].mutable_begin()->set_request_id(request_id);
    messages[1].set_plain(
        std::string(reinterpret_cast<const char*>(probabilities.data()), probabilities.size() * sizeof(float)));
    messages[2].set_end(true);
    if (edit) edit(messages);
    grpc::ClientContext context;
    client_.Prepare(context);
    auto stream = stub_->SubmitPredictions(&context, response);
    for (const auto& message : messages) {
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    return stream->Finish();
  }

  /// A message with new features of rows.
  static v1::SubmitPredictionsRequest FeaturesOf(std::int64_t rows, const std::vector<float>& values) {
    v1::SubmitPredictionsRequest part;
    part.mutable_plain_features()->set_rows(rows);
    part.mutable_plain_features()->set_values(
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    return part;
  }

  /// Predicts round after round until the campaign is over; returns how many.
  int Run() {
    for (int rounds = 0;;) {
      v1::AcquireModelTaskResponse response;
      const grpc::Status status = Acquire(&response, 1);
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (!status.ok() || response.campaign_over()) return rounds;
      if (!response.has_task()) continue;
      v1::SubmitPredictionsResponse stored;
      const grpc::Status submitted = Submit(response.task(), Predict(response.task()), &stored);
      EXPECT_TRUE(submitted.ok()) << submitted.error_message();
      ++rounds;
    }
  }

 private:
  grpc::Status ReadLabels(const v1::ModelTask& task, std::vector<std::int64_t>& rows) {
    grpc::ClientContext context;
    client_.Prepare(context);
    v1::GetModelLabelsRequest request;
    request.set_campaign(campaign_);
    request.set_task_id(task.task_id());
    request.set_with_ids(true);
    request.set_with_features(true);
    auto stream = stub_->GetModelLabels(&context, request);
    v1::GetModelLabelsResponse part;
    while (stream->Read(&part)) {
      for (int i = 0; i < part.rows_size(); ++i) {
        rows.push_back(part.rows(i));
        EXPECT_EQ(part.item_ids(i), std::to_string(part.rows(i)));
        EXPECT_EQ(task.classes(part.classes(i)), AnswerTo(part.item_ids(i)));
      }
      EXPECT_EQ(part.features().rows(), part.rows_size());
      EXPECT_EQ(part.features().values().size(), 4 * sizeof(float) * static_cast<std::size_t>(part.rows_size()));
    }
    return stream->Finish();
  }

  template <typename Request>
  void Fill(const v1::ModelTask& task, Request& request) const {
    request.set_campaign(campaign_);
    request.set_process(name_);
    request.set_lease_id(task.lease_id());
    request.set_epoch(task.epoch());
  }

  DaemonClient client_;
  std::unique_ptr<v1::ModelService::Stub> stub_;
  const std::string campaign_;
  const std::string name_;
};

}  // namespace fulcrum::testing
