#include "pipeline/server/transport/message_arena.h"
#include "tests/benchmarks/crowd/crowd_worker.h"

namespace fulcrum::benchmarks {
namespace {

constexpr char kWork[] = "/fulcrum.v1.LabelingService/Work";

/// Tasks are pushed by the server, up to the credit. The wait for tasks starts when labels are sent, because the worker
/// is idle from then on.
class StreamingWorker final : public CrowdWorker {
 public:
  using CrowdWorker::CrowdWorker;

  void Begin() override {
    auto& hello = *outgoing_.mutable_hello();
    hello.set_campaign(options_.campaign);
    hello.set_annotator(name_);
    hello.set_credit(options_.tasks_a_call);
    connection_.Open(kWork, *this);
    Send();
  }

  void OnMessage(absl::string_view message) override {
    if (has_given_all()) return;  // received after the stream was cancelled
    arena_.Reset();
    auto& incoming = *arena_.New<v1::WorkResponse>();
    Parse(message, incoming);
    if (incoming.has_submitted()) {
      Count(incoming.submitted());
      if (has_given_all()) connection_.Cancel(*this);
      return;
    }
    if (incoming.tasks().campaign_over()) return connection_.Cancel(*this);
    EndWait();
    Answer(incoming.tasks(), *outgoing_.mutable_submit());
    Send();
  }

  void OnEnd(int status) override {
    if (status != kCancelled) RequireOk(status);
    Finish();
  }

 private:
  static constexpr int kCancelled = 1;  // gRPC status code CANCELLED

  void Send() {
    BeginWait();
    connection_.Send(outgoing_, *this);
  }

  v1::WorkRequest outgoing_;
  pipeline::MessageArena arena_;  // holds the last received message
};

}  // namespace

std::unique_ptr<CrowdWorker> NewStreamingWorker(const CrowdOptions& options, int number, LeanConnection& connection,
                                                int& working) {
  return std::make_unique<StreamingWorker>(options, number, connection, working);
}

}  // namespace fulcrum::benchmarks
