#include "tests/benchmarks/worker_crowd.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <latch>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/benchmarks/crowd_worker.h"
#include "tests/benchmarks/ratio_report.h"

namespace fulcrum::benchmarks {
namespace {

constexpr int kWorkersAConnection = 50;

std::shared_ptr<grpc::Channel> NewConnection(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
}

CrowdResult Gather(const std::vector<std::unique_ptr<CrowdWorker>>& workers) {
  CrowdResult result;
  for (const auto& worker : workers) {
    result.labels += worker->labels();
    const std::vector<double>& waits = worker->waits_in_milliseconds();
    if (waits.empty()) continue;
    result.first_waits_in_milliseconds.push_back(waits.front());
    result.waits_in_milliseconds.insert(result.waits_in_milliseconds.end(), waits.begin() + 1, waits.end());
  }
  std::ranges::sort(result.first_waits_in_milliseconds);
  std::ranges::sort(result.waits_in_milliseconds);
  return result;
}

}  // namespace

double Percentile(const std::vector<double>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

CrowdResult RunCrowd(const CrowdOptions& options) {
  // As the daemon does: Debian's Abseil looks for cycles at every lock that gRPC takes.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::latch finished(options.workers);
  std::vector<std::unique_ptr<v1::LabelingService::Stub>> stubs;
  std::vector<std::unique_ptr<CrowdWorker>> workers;
  const auto new_worker = options.streams ? NewStreamingWorker : NewCallingWorker;
  for (int i = 0; i < options.workers; ++i) {
    if (i % kWorkersAConnection == 0) stubs.push_back(v1::LabelingService::NewStub(NewConnection(options.port)));
    workers.push_back(new_worker(options, i, *stubs.back(), finished));
  }
  const double processor_before = ProcessorSeconds();
  const auto start = std::chrono::steady_clock::now();
  for (const auto& worker : workers) worker->Begin();
  finished.wait();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double processor_seconds = ProcessorSeconds() - processor_before;
  CrowdResult result = Gather(workers);
  result.seconds = seconds;
  result.processor_seconds = processor_seconds;
  return result;
}

}  // namespace fulcrum::benchmarks
