// Floods against the real program: its memory stays flat, and other clients, those with a connection and new ones, are
// answered meanwhile. How fast is measured by bench_flood, on a machine that does nothing else.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/floods.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

constexpr std::size_t kCalls = 200;
constexpr std::size_t kMostGrowth = 100'000'000;

class FloodTest : public DaemonTest, public ::testing::WithParamInterface<Flood> {};

TEST_P(FloodTest, MemoryStaysFlatAndOthersAreAnswered) {
  DaemonProcess process({"--no-tokens", "--data", folder_.File("data"), "--pools", folder_.File("pools")});
  process.Spawn();
  ASSERT_TRUE(DaemonClient(process.port(), "").Create(CloudSpec("clouds", 4)).ok());
  const FloodEffect effect = Endure(process, GetParam(), kCalls);
  std::printf("p99 of %zu calls %.0f ms, of %zu new connections %.0f ms; memory +%.1f MB at most\n",
              effect.existing.size(), Percentile99(effect.existing), effect.fresh.size(), Percentile99(effect.fresh),
              static_cast<double>(effect.growth_bytes) / 1e6);
  EXPECT_TRUE(process.Lives());
  EXPECT_GT(effect.fresh.size(), 0u);
  if (!kUnderSanitizer) {
    EXPECT_LT(effect.growth_bytes, kMostGrowth);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FloodTest, ::testing::ValuesIn(Floods()),
                         [](const auto& flood) { return flood.param.name; });

}  // namespace
}  // namespace fulcrum::testing
