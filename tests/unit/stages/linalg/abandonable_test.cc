#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <latch>

#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"
#include "tests/support/matrices.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::linalg {
namespace {

/// A call that ends when the test lets it.
struct GatedCall {
  std::shared_ptr<std::latch> begun, gate;
  std::shared_ptr<int> memory = std::make_shared<int>(0);

  void Run() {
    begun->count_down();
    gate->wait();
    *memory = 7;
  }
};

GatedCall NewCall() {
  return {.begun = std::make_shared<std::latch>(1), .gate = std::make_shared<std::latch>(1)};
}

TEST(Abandonable, AStopDoesNotWaitForACallWhichKeepsWhatItNeedsToItsEnd) {
  std::stop_source stop;
  GatedCall call = NewCall();
  const auto begun = call.begun, gate = call.gate;
  const std::weak_ptr<int> memory = call.memory;
  const auto stopper = std::async(std::launch::async, [&] {
    begun->wait();
    stop.request_stop();
  });
  {
    const StopScope scope(stop.get_token());
    // Would never return if it waited: the gate is closed.
    EXPECT_THROW(RunAbandonably(kAbandonableRows, std::move(call)), StoppedOnRequest);
  }
  EXPECT_EQ(AbandonedCalls(), 1u);
  EXPECT_FALSE(memory.expired());
  gate->count_down();
  while (AbandonedCalls() > 0) std::this_thread::yield();
  while (!memory.expired()) std::this_thread::yield();
}

TEST(Abandonable, ACallThatIsWaitedForGivesItsResultAndASmallOneStaysOnItsThread) {
  const std::stop_source stop;
  const StopScope scope(stop.get_token());
  GatedCall call = NewCall();
  call.gate->count_down();
  EXPECT_EQ(*RunAbandonably(kAbandonableRows, call).memory, 7);
  struct WhereAmI {
    std::thread::id thread;
    void Run() { thread = std::this_thread::get_id(); }
  };
  EXPECT_EQ(RunAbandonably(kAbandonableRows - 1, WhereAmI{}).thread, std::this_thread::get_id());
  EXPECT_NE(RunAbandonably(kAbandonableRows, WhereAmI{}).thread, std::this_thread::get_id());
  EXPECT_EQ(AbandonedCalls(), 0u);
}

/// The matrix 2 I, large enough for its factorisation to get a thread of its own.
Matrix<double> Positive() {
  Matrix<double> matrix = Matrix<double>::Zero(kAbandonableRows, kAbandonableRows);
  for (std::size_t i = 0; i < matrix.rows(); ++i) matrix(i, i) = 2;
  return matrix;
}

std::size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
}

TEST(Abandonable, ManyCallsNeedNoMoreMemoryThanAFew) {
  const std::stop_source stop;
  const StopScope scope(stop.get_token());
  // The matrix of a call has two megabytes: what a thread left behind would add up to hundreds of them.
  constexpr int kCalls = 300;
  constexpr std::size_t kMostGrowth = std::size_t{16} << 20;
  const auto factor = [](int calls) {
    for (int i = 0; i < calls; ++i) ASSERT_TRUE(FactorCholesky(Positive()).ok());
  };
  factor(20);
  const std::size_t before = ResidentBytes();
  factor(kCalls);
  const std::size_t after = ResidentBytes();
  EXPECT_TRUE(testing::kUnderSanitizer || after < before + kMostGrowth) << before << " and " << after << " bytes";
}

TEST(Abandonable, EigensolversAnswerTheSameInsideAScope) {
  const Matrix<double> points = testing::RandomMatrix(kAbandonableRows, 8, 3);
  Matrix<double> kernel(points.rows(), points.rows());
  for (std::size_t i = 0; i < points.rows(); ++i) {
    for (std::size_t j = 0; j < points.rows(); ++j) {
      for (std::size_t k = 0; k < points.cols(); ++k) kernel(i, j) += points(i, k) * points(j, k);
    }
  }
  const TopEigenRequest request{.tau = 0.9};
  const auto outside = SolveTopEigenPartial(kernel.view(), request);
  const auto outside_full = SolveTopEigenDense(kernel.view(), request);
  const std::stop_source stop;
  const StopScope scope(stop.get_token());
  const auto inside = SolveTopEigenPartial(kernel.view(), request);
  const auto inside_full = SolveTopEigenDense(kernel.view(), request);
  ASSERT_TRUE(outside.ok() && inside.ok() && outside_full.ok() && inside_full.ok());
  EXPECT_EQ(inside->values, outside->values);
  EXPECT_EQ(inside_full->values, outside_full->values);
}

}  // namespace
}  // namespace fulcrum::linalg
