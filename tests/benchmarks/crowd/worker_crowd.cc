#include "tests/benchmarks/crowd/worker_crowd.h"

#include <algorithm>
#include <memory>

#include "tests/benchmarks/crowd/crowd_worker.h"
#include "tests/benchmarks/crowd/lean_client.h"
#include "tests/benchmarks/ratio_report.h"

namespace fulcrum::benchmarks {
namespace {

constexpr int kWorkersAConnection = 50;

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
  int working = options.workers;
  std::vector<std::unique_ptr<LeanConnection>> connections;
  std::vector<std::unique_ptr<CrowdWorker>> workers;
  const auto new_worker = options.streams ? NewStreamingWorker : NewCallingWorker;
  for (int i = 0; i < options.workers; ++i) {
    if (i % kWorkersAConnection == 0) connections.push_back(std::make_unique<LeanConnection>(options.port));
    workers.push_back(new_worker(options, i, *connections.back(), working));
  }
  const double processor_before = ProcessorSeconds();
  const auto start = std::chrono::steady_clock::now();
  for (const auto& worker : workers) worker->Begin();
  LeanConnection::Run(connections, [&] { return working == 0; });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double processor_seconds = ProcessorSeconds() - processor_before;
  CrowdResult result = Gather(workers);
  result.seconds = seconds;
  result.processor_seconds = processor_seconds;
  return result;
}

}  // namespace fulcrum::benchmarks
