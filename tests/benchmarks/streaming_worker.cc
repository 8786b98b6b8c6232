#include <grpcpp/grpcpp.h>

#include <atomic>

#include "pipeline/services/message_arena.h"
#include "tests/benchmarks/crowd_worker.h"

namespace fulcrum::benchmarks {
namespace {

/// Tasks come without being asked for, up to the credit; the wait for them begins when labels are sent, since the
/// worker has nothing to do from then on.
class StreamingWorker final : public CrowdWorker, public grpc::ClientBidiReactor<v1::WorkRequest, v1::WorkResponse> {
 public:
  using CrowdWorker::CrowdWorker;

  void Begin() override {
    auto& hello = *outgoing_.mutable_hello();
    hello.set_campaign(options_.campaign);
    hello.set_annotator(name_);
    hello.set_credit(options_.tasks_a_call);
    stub_.async()->Work(&context_, this);
    BeginWait();
    StartRead(incoming_);
    StartWrite(&outgoing_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (incoming_->has_submitted()) {
      Count(incoming_->submitted());
      if (has_given_all()) return context_.TryCancel();
      return ReadNext();
    }
    if (incoming_->tasks().campaign_over()) return context_.TryCancel();
    EndWait();
    Proceed();
  }

  void OnWriteDone(bool ok) override {
    if (ok) Proceed();
  }

  void OnDone(const grpc::Status& status) override {
    if (status.error_code() != grpc::StatusCode::CANCELLED) Require(status);
    finished_.count_down();
  }

 private:
  /// Called when tasks have come, and when what was written before is on its way: either may be the first.
  void Proceed() {
    if (happened_.fetch_add(1) == 0) return;
    happened_ = 0;
    Answer(incoming_->tasks(), *outgoing_.mutable_submit());
    BeginWait();
    StartWrite(&outgoing_);
    ReadNext();
  }

  void ReadNext() {
    arena_.Reset();
    incoming_ = arena_.New<v1::WorkResponse>();
    StartRead(incoming_);
  }

  grpc::ClientContext context_;
  std::atomic<int> happened_ = 0;
  v1::WorkRequest outgoing_;
  pipeline::MessageArena arena_;  // of what is being read
  v1::WorkResponse* incoming_ = arena_.New<v1::WorkResponse>();
};

}  // namespace

std::unique_ptr<CrowdWorker> NewStreamingWorker(const CrowdOptions& options, int number,
                                                v1::LabelingService::Stub& stub, std::latch& finished) {
  return std::make_unique<StreamingWorker>(options, number, stub, finished);
}

}  // namespace fulcrum::benchmarks
