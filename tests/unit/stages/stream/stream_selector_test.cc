#include "stages/stream/stream_selector.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "tests/unit/stages/stream/stream_pool.h"

namespace fulcrum::stream {
namespace {

using Rows = std::vector<std::vector<double>>;

/// x with A x = b, by elimination.
std::vector<double> SolveNaively(Rows a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The leverage of the header's formula: every row that has a label or was taken is in `seen`.
double NaiveLeverage(const StreamModel& model, const Rows& seen, const std::vector<double>& z) {
  const std::size_t rank = z.size();
  Rows matrix(rank, std::vector<double>(rank, 0.0));
  const double lambda = std::accumulate(model.moments().begin(), model.moments().end(), 0.0);
  for (std::size_t a = 0; a < rank; ++a) {
    matrix[a][a] = lambda;
    for (const std::vector<double>& row : seen) {
      for (std::size_t b = 0; b < rank; ++b) matrix[a][b] += row[a] * row[b];
    }
  }
  double mean = 0;
  const ConstMatrixView reference = model.reference();
  for (std::size_t i = 0; i < reference.rows(); ++i) {
    const std::vector<double> row(reference.row(i).begin(), reference.row(i).end());
    mean += Dot(row, SolveNaively(matrix, row)) / static_cast<double>(reference.rows());
  }
  return Dot(z, SolveNaively(matrix, z)) / mean;
}

TEST(StreamSelector, TheScoreIsWhatTheFormulaSays) {
  const TestPool pool(60, 4, 2, 6, 2);
  const auto model = pool.Model({.landmarks = 20, .rank = 8});
  StreamSelector selector = StreamSelector::Make(model, {.budget = {.share = 0.2}, .novelty_weight = 0.7}).value();
  Rows seen;
  for (std::size_t i = 0; i < model->labeled().rows(); ++i) {
    seen.emplace_back(model->labeled().row(i).begin(), model->labeled().row(i).end());
  }
  Random random(23);
  RowView view;
  std::size_t taken = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<double> row = ClusterRow(4, static_cast<std::size_t>(i % 3), random);
    const Decision decision = selector.Offer(row, 0).value();
    model->Look(row, view);
    const double leverage = NaiveLeverage(*model, seen, view.coordinates);
    ASSERT_NEAR(decision.leverage, leverage, 1e-8 * (1 + leverage));
    ASSERT_NEAR(decision.score, (0.05 + view.uncertainty) * (leverage + 0.7 * view.novelty), 1e-8 * (1 + leverage));
    ASSERT_EQ(decision.take, decision.score >= decision.threshold);
    if (!decision.take) continue;
    seen.push_back(view.coordinates);
    ++taken;
  }
  EXPECT_NEAR(static_cast<double>(taken), 40, 1);
}

TEST(StreamSelector, ATakenRowMakesItsCopiesLessInteresting) {
  const TestPool pool(200, 4, 2, 10, 2);
  StreamSelector selector = StreamSelector::Make(pool.Model(), {.budget = {.share = 1}}).value();
  const std::vector<double> row = {0.5, 0.5, 0.5, 0.5};
  double before = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const Decision decision = selector.Offer(row, 0).value();
    EXPECT_TRUE(decision.take);
    EXPECT_LT(decision.leverage, before);
    before = decision.leverage;
  }
}

struct Offered {
  std::vector<Decision> decisions;
  DriftReport drift;
};

/// Offers 2,000 rows, and begins again from the state after each of the `kills`.
Offered OfferRows(const TestPool& pool, const std::vector<int>& kills) {
  const StreamOptions options = {.budget = {.share = 0.05}, .drift = {.window = 100, .false_alarm_rate = 0.01}};
  auto selector = std::make_unique<StreamSelector>(StreamSelector::Make(pool.Model(), options).value());
  Random random(29);
  Offered offered;
  for (int i = 0; i < 2000; ++i) {
    if (std::ranges::find(kills, i) != kills.end()) {
      const std::string state = selector->State();
      selector = std::make_unique<StreamSelector>(StreamSelector::Make(pool.Model(), options).value());
      EXPECT_TRUE(selector->Restore(state).ok());
    }
    const std::size_t cluster = static_cast<std::size_t>(i % 2 + (i > 1500 ? 1 : 0));
    offered.decisions.push_back(selector->Offer(ClusterRow(4, cluster, random), 0).value());
  }
  offered.drift = selector->drift();
  return offered;
}

TEST(StreamSelector, AStateContinuesWithTheSameDecisions) {
  const TestPool pool(400, 4, 2, 10, 2);
  const Offered whole = OfferRows(pool, {});
  const Offered killed = OfferRows(pool, {0, 1, 57, 58, 333, 700, 1111, 1500, 1501, 1999});
  ASSERT_EQ(whole.decisions.size(), killed.decisions.size());
  for (std::size_t i = 0; i < whole.decisions.size(); ++i) {
    ASSERT_EQ(whole.decisions[i].score, killed.decisions[i].score) << i;
    ASSERT_EQ(whole.decisions[i].threshold, killed.decisions[i].threshold) << i;
    ASSERT_EQ(whole.decisions[i].drift_alarm, killed.decisions[i].drift_alarm) << i;
  }
  EXPECT_EQ(whole.drift.windows, 20U);
  EXPECT_EQ(killed.drift.windows, 20U);
  EXPECT_GT(whole.drift.alarms, 0U);
  EXPECT_EQ(whole.drift.alarms, killed.drift.alarms);
}

TEST(StreamSelector, AnOlderStateAndTheDecisionsAfterItAreAsGoodAsTheState) {
  const TestPool pool(400, 4, 2, 10, 2);
  const StreamOptions options = {.budget = {.per_second = 3}, .drift = {.window = 100, .false_alarm_rate = 0.01}};
  StreamSelector selector = StreamSelector::Make(pool.Model(), options).value();
  // What was saved is the same model.
  const auto saved = StreamModel::Parse(pool.Model()->Serialize());
  ASSERT_TRUE(saved.ok()) << saved.status();
  StreamSelector other = StreamSelector::Make(*saved, options).value();
  Random random(37);
  std::string older;
  for (int i = 0; i < 1500; ++i) {
    if (i == 700) {
      older = selector.State();
      ASSERT_TRUE(other.Restore(older).ok());
    }
    const std::vector<double> row = ClusterRow(4, static_cast<std::size_t>(i % 2), random);
    const double seconds = 0.1 * i + (i > 900 ? 5 : 0);
    const Decision decision = selector.Offer(row, seconds).value();
    if (i >= 700) other.Repeat(decision.score, seconds, decision.take, decision.take ? row : std::vector<double>());
  }
  ASSERT_TRUE(other.RestoreDrift(selector.DriftState(), true).ok());
  EXPECT_EQ(other.State(), selector.State());
  EXPECT_NE(other.State(), older);
  EXPECT_FALSE(other.RestoreDrift(selector.DriftState().substr(0, 20), true).ok());
}

TEST(StreamSelector, TheBudgetGoesOnWithAnotherModel) {
  const TestPool pool(400, 4, 2, 10, 2), more(400, 4, 2, 2, 3);
  const StreamOptions options = {.budget = {.share = 0.05}};
  StreamSelector selector = StreamSelector::Make(pool.Model(), options).value();
  StreamSelector restarted = StreamSelector::Make(more.Model(), options).value();
  Random random(31);
  for (int i = 0; i < 5000; ++i) {
    if (i == 1234) {
      ASSERT_TRUE(restarted.Restore(selector.State()).ok());
      ASSERT_TRUE(selector.UseModel(more.Model()).ok());
    }
    const std::vector<double> row = ClusterRow(4, static_cast<std::size_t>(i % 2), random);
    const Decision decision = selector.Offer(row, 0).value();
    // A restart with a new model is the same as a new model.
    if (i >= 1234) {
      ASSERT_EQ(restarted.Offer(row, 0)->score, decision.score);
    }
  }
  EXPECT_NEAR(static_cast<double>(selector.threshold().taken()), 250, 1.25);
  EXPECT_EQ(selector.threshold().taken(), restarted.threshold().taken());
}

TEST(StreamSelector, RefusesRowsThatAreNotOfThePoolAndChangesNothing) {
  const TestPool pool(100, 3, 2, 5, 1);
  StreamSelector selector = StreamSelector::Make(pool.Model(), {.budget = {.share = 0.1}}).value();
  const std::string before = selector.State();
  EXPECT_FALSE(selector.Offer(std::vector<double>{1, 2}, 0).ok());
  EXPECT_FALSE(selector.Offer(std::vector<double>{1, 2, std::numeric_limits<double>::quiet_NaN()}, 0).ok());
  EXPECT_EQ(selector.State(), before);
}

TEST(StreamSelector, RefusesADamagedState) {
  const TestPool pool(100, 3, 2, 5, 1);
  const StreamOptions options = {.budget = {.share = 0.1}};
  StreamSelector selector = StreamSelector::Make(pool.Model(), options).value();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(selector.Offer(pool.Row(static_cast<std::size_t>(i)), 0).ok());
  const std::string state = selector.State();
  StreamSelector other = StreamSelector::Make(pool.Model(), options).value();
  const std::string untouched = other.State();
  for (std::size_t place = 0; place < state.size(); place += 211) {
    std::string damaged = state;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x20);
    EXPECT_FALSE(other.Restore(damaged).ok()) << place;
    EXPECT_FALSE(other.Restore(state.substr(0, place)).ok()) << place;
  }
  EXPECT_EQ(other.State(), untouched);
  EXPECT_TRUE(other.Restore(state).ok());
  EXPECT_EQ(other.State(), state);
}

TEST(StreamSelector, RefusesImpossibleOptions) {
  const TestPool pool(100, 3, 2, 5, 1);
  EXPECT_FALSE(StreamSelector::Make(pool.Model(), {}).ok());
  EXPECT_FALSE(StreamSelector::Make(pool.Model(), {.budget = {.share = 0.1}, .novelty_weight = -1}).ok());
  EXPECT_FALSE(StreamSelector::Make(pool.Model(), {.budget = {.share = 0.1}, .drift = {.window = 0}}).ok());
}

}  // namespace
}  // namespace fulcrum::stream
