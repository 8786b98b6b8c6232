// Measures how long other clients wait for answers while ten clients flood the daemon with HTTP/2 frames or
// connections, and what memory the daemon takes. The clients are in this process and on this machine, which is fully
// loaded meanwhile.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/floods.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kCalls = 1000;

void Measure(const testing::Flood& flood) {
  const testing::TemporaryDirectory folder;
  std::filesystem::create_directories(folder.File("pools"));
  folder.Write("pools/clouds.csv", testing::CloudsText(200));
  testing::DaemonProcess process({"--no-tokens", "--data", folder.File("data"), "--pools", folder.File("pools")});
  process.Spawn();
  if (!testing::DaemonClient(process.port(), "").Create(testing::CloudSpec("clouds", 4)).ok()) {
    std::fprintf(stderr, "the daemon cannot be used\n");
    std::exit(1);
  }
  const testing::FloodEffect effect = testing::Endure(process, flood, kCalls);
  PrintHeading(flood.name.c_str());
  PrintAtMost(absl::StrCat("p99 of ", effect.existing.size(), " calls").c_str(), testing::Percentile99(effect.existing),
              200, "ms");
  PrintFigure(absl::StrCat("p99 of ", effect.fresh.size(), " first calls on new connections").c_str(),
              testing::Percentile99(effect.fresh), "ms");
  PrintAtMost("growth of memory", static_cast<double>(effect.growth_bytes) / 1e6, 100, "MB");
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  for (const auto& flood : fulcrum::testing::Floods()) fulcrum::benchmarks::Measure(flood);
  return fulcrum::benchmarks::ExitCode();
}
