// Runs a crowd of workers in a separate process: the same program, with its parameters as arguments and its result as
// text.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/benchmarks/crowd/worker_crowd.h"
#include "tests/support/process.h"

namespace fulcrum::benchmarks {
namespace {

constexpr char kCrowd[] = "--crowd";
constexpr int kArguments = 10;

void Print(const std::vector<double>& values) {
  std::printf("%zu", values.size());
  for (const double value : values) std::printf(" %.4f", value);
  std::printf("\n");
}

std::vector<double> Read(std::istream& text) {
  std::size_t count = 0;
  text >> count;
  std::vector<double> values(count);
  for (double& value : values) text >> value;
  return values;
}

}  // namespace

CrowdResult RunCrowdProcess(const CrowdOptions& options) {
  const testing::ProcessResult process = testing::RunProcess(
      {"/proc/self/exe", kCrowd, absl::StrCat(options.port), options.campaign, absl::StrCat(options.workers),
       absl::StrCat(options.tasks_a_call), absl::StrCat(options.labels_each), absl::StrCat(options.wait.count()),
       options.request_prefix, options.streams ? "streams" : "calls"});
  std::istringstream text(process.standard_output);
  CrowdResult result;
  text >> result.seconds >> result.processor_seconds >> result.labels;
  result.first_waits_in_milliseconds = Read(text);
  result.waits_in_milliseconds = Read(text);
  if (process.exit_code == 0 && text) return result;
  std::fprintf(stderr, "the workers failed: %s\n", process.standard_error.c_str());
  std::exit(1);
}

bool ServeAsCrowd(int count, char** arguments) {
  if (count != kArguments || std::strcmp(arguments[1], kCrowd) != 0) return false;
  const CrowdResult result = RunCrowd({.port = std::atoi(arguments[2]),
                                       .streams = std::strcmp(arguments[9], "streams") == 0,
                                       .campaign = arguments[3],
                                       .workers = std::atoi(arguments[4]),
                                       .tasks_a_call = std::atoi(arguments[5]),
                                       .labels_each = std::atoll(arguments[6]),
                                       .wait = std::chrono::seconds(std::atoi(arguments[7])),
                                       .request_prefix = arguments[8]});
  std::printf("%.6f %.6f %lld\n", result.seconds, result.processor_seconds, static_cast<long long>(result.labels));
  Print(result.first_waits_in_milliseconds);
  Print(result.waits_in_milliseconds);
  return true;
}

}  // namespace fulcrum::benchmarks
