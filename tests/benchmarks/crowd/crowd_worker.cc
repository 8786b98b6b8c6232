#include "tests/benchmarks/crowd/crowd_worker.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace fulcrum::benchmarks {

void RequireOk(int status) {
  if (status == 0) return;
  std::fprintf(stderr, "a call failed with gRPC's status %d\n", status);
  std::exit(1);
}

void Parse(absl::string_view text, google::protobuf::MessageLite& message) {
  if (message.ParseFromArray(text.data(), static_cast<int>(text.size()))) return;
  std::fprintf(stderr, "the server sent what is no %s\n", message.GetTypeName().c_str());
  std::exit(1);
}

CrowdWorker::CrowdWorker(const CrowdOptions& options, int number, LeanConnection& connection, int& working)
    : options_(options), name_(absl::StrCat("worker-", number)), connection_(connection), working_(working) {}

void CrowdWorker::EndWait() {
  waits_.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun_).count());
}

void CrowdWorker::Answer(const v1::AcquireTasksResponse& tasks, v1::SubmitLabelsRequest& submit) {
  submit.Clear();
  submit.set_campaign(options_.campaign);
  submit.set_annotator(name_);
  submit.set_request_id(absl::StrCat(options_.request_prefix, "-s-", ++requests_));
  for (const v1::Task& task : tasks.tasks()) {
    v1::Label& label = *submit.add_labels();
    label.mutable_lease()->set_lease_id(task.lease_id());
    label.mutable_lease()->set_epoch(task.epoch());
    label.set_item_id(task.item_id());
    label.set_value(task.classes(static_cast<int>(task.lease_id() % task.classes_size())));
  }
}

void CrowdWorker::Count(const v1::SubmitLabelsResponse& results) {
  for (const auto& result : results.results()) labels_ += result.status().code() == 0 ? 1 : 0;
}

}  // namespace fulcrum::benchmarks
