#include "pipeline/operation/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "pipeline/operation/metric_families.h"

namespace fulcrum::pipeline {
namespace {

using prometheus::MetricType;

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double OpenDescriptors() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

double DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<double>(limit.rlim_cur) : 0;
}

double ProcessorSeconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessFigures::Collect() const {
  std::vector<prometheus::MetricFamily> families;
  const auto add = [&](MetricType type, const char* name, const char* help, double value) {
    AddValue(families.emplace_back(MakeFamily(type, name, help)), value);
  };
  add(MetricType::Gauge, "process_resident_memory_bytes", "Memory that the process has in use.", ResidentBytes());
  add(MetricType::Gauge, "process_open_fds", "Open file descriptors.", OpenDescriptors());
  add(MetricType::Gauge, "process_max_fds", "Limit of open file descriptors.", DescriptorLimit());
  add(MetricType::Counter, "process_cpu_seconds_total", "Processor time, of all threads.", ProcessorSeconds());
  return families;
}

}  // namespace fulcrum::pipeline
