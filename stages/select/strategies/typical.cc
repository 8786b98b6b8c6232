// TypiClust (Hacohen, Dekel, Weinshall 2022): k-means with as many clusters as labels and picks together, then, cluster
// after cluster, the most typical example of the one with the fewest labels:
//   typicality(x) = 1 / mean distance to the 20 nearest members of its cluster.
// Among clusters with equally many labels the largest comes first; those with fewer than 5 members come last. Distances
// are Euclidean, of the features. A large pool is represented by a uniform sample, of which the picks come too: the
// inner products of the sample's rows are in memory, so that dense and sparse features are treated alike.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kNeighbours = 20;
constexpr std::size_t kSmallestCluster = 5;
constexpr std::size_t kMostIterations = 30;
// Labeled rows come on top. Their inner products are 128 MiB.
constexpr std::size_t kLargestSample = 4096;

using Positions = std::vector<std::size_t>;

/// The labeled rows and a sample of the others, ascending.
RowList SampleOf(const Candidates& candidates, std::size_t at_least) {
  RowList rows = UnlabeledRows(candidates.labels);
  const std::size_t wanted = std::max(kLargestSample, at_least);
  if (rows.size() > wanted) {
    Random random = Random::Fork(candidates.seed, candidates.labels.size());
    random.Shuffle(std::span<RowIndex>(rows));
    rows.resize(wanted);
  }
  const RowList labeled = LabeledRows(candidates.labels);
  rows.insert(rows.end(), labeled.begin(), labeled.end());
  std::ranges::sort(rows);
  return rows;
}

/// k-means of rows of which only inner products are known.
class KMeans {
 public:
  KMeans(ConstMatrixView dots, std::size_t clusters, std::uint64_t seed) : dots_(dots), cluster_of_(dots.rows(), 0) {
    Seed(std::min(clusters, dots.rows()), seed);
    for (std::size_t i = 0; i < kMostIterations && Assign(); ++i) {
    }
  }

  std::size_t clusters() const { return members_.size(); }
  const Positions& members(std::size_t cluster) const { return members_[cluster]; }
  double SquaredDistance(std::size_t a, std::size_t b) const {
    return std::max(dots_(a, a) + dots_(b, b) - 2 * dots_(a, b), 0.0);
  }

 private:
  /// k-means++: each center is drawn with a probability proportional to its squared distance to the nearest one.
  void Seed(std::size_t clusters, std::uint64_t seed) {
    Random random(seed);
    std::vector<double> nearest(dots_.rows(), std::numeric_limits<double>::infinity());
    std::size_t center = random.Below(dots_.rows());
    for (std::size_t c = 0; c < clusters; ++c) {
      double total = 0;
      for (std::size_t i = 0; i < nearest.size(); ++i) {
        if (SquaredDistance(i, center) < nearest[i]) {
          nearest[i] = SquaredDistance(i, center);
          cluster_of_[i] = c;
        }
        total += nearest[i];
      }
      const double target = random.Uniform() * total;
      double sum = 0;
      for (center = 0; center + 1 < nearest.size() && sum + nearest[center] <= target; ++center) sum += nearest[center];
    }
    members_.resize(clusters);
    Collect();
  }

  void Collect() {
    for (Positions& members : members_) members.clear();
    for (std::size_t i = 0; i < cluster_of_.size(); ++i) members_[cluster_of_[i]].push_back(i);
  }

  /// |x - mean|^2 = x.x - 2/m sum_j x.x_j + 1/m^2 sum_jk x_j.x_k. Returns whether a row changed its cluster.
  bool Assign() {
    ThrowIfStopRequested();
    std::vector<double> spread(members_.size(), 0.0);
    for (std::size_t c = 0; c < members_.size(); ++c) {
      for (const std::size_t j : members_[c]) {
        for (const std::size_t k : members_[c]) spread[c] += dots_(j, k);
      }
      spread[c] /= static_cast<double>(members_[c].size() * members_[c].size());
    }
    const Positions before = cluster_of_;
    ParallelForBlocks(cluster_of_.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
      std::vector<double> sums(members_.size());
      for (std::size_t i = first; i < first + count; ++i) {
        std::ranges::fill(sums, 0.0);
        for (std::size_t j = 0; j < before.size(); ++j) sums[before[j]] += dots_(i, j);
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < members_.size(); ++c) {
          if (members_[c].empty()) continue;
          const double squared = spread[c] - 2 * sums[c] / static_cast<double>(members_[c].size());
          if (squared < least) {
            least = squared;
            cluster_of_[i] = c;
          }
        }
      }
    });
    Collect();
    return cluster_of_ != before;
  }

  static constexpr std::size_t kRowsPerBlock = 64;

  ConstMatrixView dots_;
  Positions cluster_of_;
  std::vector<Positions> members_;
};

class TypicalRun {
 public:
  TypicalRun(const Candidates& candidates, const RowList& rows, const KMeans& clusters)
      : candidates_(candidates), rows_(rows), clusters_(clusters), taken_(rows.size(), 0) {
    for (std::size_t i = 0; i < rows.size(); ++i) taken_[i] = candidates.labels[rows[i]] != kUnlabeled ? 1 : 0;
    for (std::size_t c = 0; c < clusters.clusters(); ++c) {
      labels_.push_back(static_cast<std::size_t>(
          std::ranges::count_if(clusters.members(c), [&](std::size_t i) { return taken_[i] != 0; })));
    }
  }

  std::vector<Pick> Choose(std::size_t batch) {
    std::vector<Pick> picks;
    while (picks.size() < batch) {
      ThrowIfStopRequested();
      const std::size_t cluster = NextCluster();
      const Pick pick = MostTypical(clusters_.members(cluster));
      picks.push_back(pick);
      ++labels_[cluster];
    }
    return picks;
  }

 private:
  /// Small clusters last, then fewest labels, then the largest; a cluster without an open row is none.
  std::size_t NextCluster() const {
    std::optional<std::size_t> best;
    const auto key = [&](std::size_t c) {
      const std::size_t size = clusters_.members(c).size();
      return std::tuple(size < kSmallestCluster, labels_[c], ~size, clusters_.members(c).front());
    };
    for (std::size_t c = 0; c < labels_.size(); ++c) {
      if (clusters_.members(c).size() > labels_[c] && (!best || key(c) < key(*best))) best = c;
    }
    return *best;
  }

  Pick MostTypical(const Positions& members) {
    std::vector<double> typicality(members.size(), -1);
    ParallelForBlocks(members.size(), 16, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        if (taken_[members[i]] == 0) typicality[i] = TypicalityOf(members[i], members);
      }
    });
    // Members ascend, so ties go to the smaller row.
    const auto best =
        static_cast<std::size_t>(std::ranges::min_element(typicality, LargerFirst()) - typicality.begin());
    taken_[members[best]] = 1;
    return {.row = rows_[members[best]], .gain = typicality[best]};
  }

  double TypicalityOf(std::size_t x, const Positions& members) const {
    std::vector<double> distances;
    for (const std::size_t other : members) {
      if (other != x) distances.push_back(std::sqrt(clusters_.SquaredDistance(x, other)));
    }
    const std::size_t count = std::min(kNeighbours, distances.size());
    std::ranges::partial_sort(distances, distances.begin() + static_cast<std::ptrdiff_t>(count));
    const double sum = std::accumulate(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
    // A row alone in its cluster is as typical as any; copies have no distance to divide by.
    if (count == 0) return 0;
    return sum > 0 ? static_cast<double>(count) / sum : std::numeric_limits<double>::max();
  }

  const Candidates& candidates_;
  const RowList& rows_;
  const KMeans& clusters_;
  std::vector<std::uint8_t> taken_;  // by position in the sample: labeled or picked
  Positions labels_;                 // by cluster, with the picks
};

class Typical final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }
  bool needs_labels() const override { return false; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const auto open = static_cast<std::size_t>(std::ranges::count(candidates.labels, kUnlabeled));
    const std::size_t batch = std::min(candidates.batch, open);
    const RowList rows = SampleOf(candidates, batch);
    const std::size_t labeled = candidates.labels.size() - open;
    Matrix<double> dots(rows.size(), rows.size());
    kernel::ComputeKernelSymmetric({.type = kernel::KernelType::kLinear}, *candidates.features, rows, dots.view());
    const KMeans clusters(dots.view(), labeled + batch, candidates.seed);
    Selection selection;
    selection.picks = TypicalRun(candidates, rows, clusters).Choose(batch);
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeTypical() {
  return std::make_unique<Typical>();
}

}  // namespace fulcrum::select
