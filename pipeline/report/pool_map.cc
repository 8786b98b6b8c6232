#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "pipeline/campaign/campaign_items.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/report/reports.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/round/tuning.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/landmarks.h"
#include "stages/linalg/top_eigen.h"
#include "storage/campaign_files.h"
#include "storage/state/ledger.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kLandmarks = 300;
constexpr std::size_t kBlock = 2048;
constexpr std::size_t kMostProjected = 100'000;
constexpr double kMostNumbers = 2e7;  // features that are read: a second or two
constexpr std::size_t kGrid = 64;
constexpr double kLargestCoordinate = 1e30;
constexpr std::size_t kMostKept = 16;
constexpr std::size_t kMostMarked = 1000;
constexpr std::size_t kMostListed = 20'000;
constexpr std::uint64_t kLandmarkStream = 71, kSampleStream = 72, kMarkedStream = 74;

/// Rows with the features that the kernel is evaluated on.
struct Rows {
  std::shared_ptr<const kernel::Features> features;
  RowList rows;
};

/// Which features and which kernel the leverage scores of the last round have, or would have.
struct View {
  std::shared_ptr<const CampaignPool> pool;
  std::string normalize;  ///< empty: as the pool's features are
  std::optional<kernel::KernelFunction> kernel;

  absl::StatusOr<Rows> Take(const RowList& rows) const {
    if (normalize.empty()) return Rows{std::shared_ptr<const kernel::Features>(pool, &pool->features()), rows};
    FULCRUM_ASSIGN_OR_RETURN(ingest::PoolFeatures raw, pool->RawRows(rows));
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, pool->NormalizerFor(normalize));
    normalizer->Apply(raw);
    Rows taken{std::shared_ptr<const kernel::Features>(MakeFeatures(std::move(raw))), RowList(rows.size())};
    std::iota(taken.rows.begin(), taken.rows.end(), RowIndex{0});
    return taken;
  }
};

absl::StatusOr<View> ViewOf(Campaign& campaign) {
  const std::shared_ptr<const CampaignPlan> plan = campaign.plan();
  View view{.pool = campaign.pool(), .normalize = {}, .kernel = {}};
  if (!plan->round.tune) {
    view.kernel = plan->round.leverage_kernel;
    return view;
  }
  view.normalize = view.pool->sparse() ? "unit" : "zscore";
  if (!plan->round.leverage_follows) view.kernel = plan->round.leverage_kernel;
  const auto stored = campaign.models().Find(0);
  v1::ModelTrained record;
  if (!stored.ok() || stored->record.empty() || !ParseStoredText(stored->record, record).ok()) return view;
  if (!record.tuning().chosen().normalize().empty()) view.normalize = record.tuning().chosen().normalize();
  if (plan->round.leverage_follows && record.tuning().leverage_sigma() > 0) {
    view.kernel = kernel::KernelFunction{.sigma = record.tuning().leverage_sigma()};
  }
  return view;
}

/// FailedPrecondition that names the first example whose kernel cannot be computed. `of` are the pool's numbers of the
/// rows.
absl::Status CheckRows(const View& view, const kernel::KernelFunction& kernel, const Rows& rows,
                       std::span<const RowIndex> of) {
  const std::span<const double> norms = rows.features->squared_norms();
  for (std::size_t i = 0; i < of.size(); ++i) {
    const absl::Status status = kernel::CheckKernelValues(kernel, norms, std::span(rows.rows).subspan(i, 1));
    if (status.ok()) continue;
    return absl::FailedPreconditionError(absl::StrFormat("the pool cannot be drawn because of the example '%s': %s",
                                                         view.pool->ids().TextOf(of[i]), status.message()));
  }
  return absl::OkStatus();
}

/// An rbf kernel as wide as the median distance of the rows.
kernel::KernelFunction KernelFor(const Rows& rows) {
  const std::size_t count = std::min<std::size_t>(rows.rows.size(), 100);
  const std::span<const RowIndex> some(rows.rows.data(), count);
  Matrix<double> dots(count, count);
  kernel::ComputeKernelSymmetric({.type = kernel::KernelType::kLinear}, *rows.features, some, dots.view());
  std::vector<double> distances;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) distances.push_back(dots(i, i) + dots(j, j) - 2 * dots(i, j));
  }
  if (distances.empty()) return {};
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return {.sigma = *middle > 0 ? std::sqrt(*middle) : 1};
}

/// The two leading components of the landmarks, in the centred space of the kernel.
struct Components {
  Rows landmarks;
  kernel::KernelFunction kernel;
  std::vector<double> means;  ///< of the columns of the landmarks' kernel
  Matrix<double> weights;     ///< 2 x landmarks: coordinates of a row are its centred kernel values times these
  Matrix<double> leverage;    ///< rank x landmarks: the leverage of a row is |its kernel values times these|^2
  double shares[2] = {0, 0};
};

/// Leverage in the whole pool, from its landmarks: with the eigenpairs (mu_j, u_j) of their kernel and n / m rows per
/// landmark, that of a row with the kernel values c is the sum of (c u_j)^2 / (mu_j^2 n / m) over the leading pairs
/// that capture tau of the trace. Exact if all rows are landmarks. The scores of a round, which are per class, are
/// shown instead if its strategy needed them.
absl::StatusOr<Matrix<double>> LeverageWeights(Matrix<double> gram, double rows, double tau) {
  const std::size_t m = gram.rows();
  double trace = 0;
  for (std::size_t i = 0; i < m; ++i) trace += gram(i, i);
  FULCRUM_ASSIGN_OR_RETURN(const linalg::FullEigen eigen, linalg::DecomposeSymmetric(std::move(gram)));
  const std::vector<double> descending(eigen.values.rbegin(), eigen.values.rend());
  std::size_t rank = std::min(m, linalg::RankForShare(descending, trace, tau));
  while (rank > 0 && !(descending[rank - 1] > 1e-12 * trace)) --rank;
  Matrix<double> weights(rank, m);
  for (std::size_t k = 0; k < rank; ++k) {
    const double scale = 1 / (descending[k] * std::sqrt(rows / static_cast<double>(m)));
    const auto vector = eigen.vectors.row(m - 1 - k);
    for (std::size_t j = 0; j < m; ++j) weights(k, j) = scale * vector[j];
  }
  return weights;
}

absl::StatusOr<Components> FindComponents(const View& view, const RowList& rows, std::uint64_t seed, double tau) {
  Components found;
  const RowList sample = leverage::SampleRows(rows, kLandmarks, seed, kLandmarkStream);
  FULCRUM_ASSIGN_OR_RETURN(found.landmarks, view.Take(sample));
  FULCRUM_RETURN_IF_ERROR(CheckRows(view, {.type = kernel::KernelType::kLinear}, found.landmarks, sample));
  found.kernel = view.kernel ? *view.kernel : KernelFor(found.landmarks);
  FULCRUM_RETURN_IF_ERROR(CheckRows(view, found.kernel, found.landmarks, sample));
  const std::size_t m = found.landmarks.rows.size();
  Matrix<double> centred(m, m);
  kernel::ComputeKernelSymmetric(found.kernel, *found.landmarks.features, found.landmarks.rows, centred.view());
  FULCRUM_ASSIGN_OR_RETURN(found.leverage, LeverageWeights(centred.Clone(), static_cast<double>(rows.size()), tau));
  found.means.assign(m, 0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) found.means[j] += centred(i, j) / static_cast<double>(m);
  }
  const double mean = std::accumulate(found.means.begin(), found.means.end(), 0.0) / static_cast<double>(m);
  double trace = 0;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) centred(i, j) += mean - found.means[i] - found.means[j];
    trace += centred(i, i);
  }
  FULCRUM_ASSIGN_OR_RETURN(const linalg::FullEigen eigen, linalg::DecomposeSymmetric(std::move(centred)));
  found.weights = Matrix<double>::Zero(2, m);
  for (std::size_t axis = 0; axis < 2 && axis < m; ++axis) {
    const double value = eigen.values[m - 1 - axis];
    if (!(value > 1e-12 * std::max(trace, 1e-300))) break;  // all rows are in one place, or on a line
    const auto vector = eigen.vectors.row(m - 1 - axis);
    // Eigenvectors have no sign of their own.
    const double largest =
        *std::max_element(vector.begin(), vector.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double scale = (largest < 0 ? -1 : 1) / std::sqrt(value);
    for (std::size_t j = 0; j < m; ++j) found.weights(axis, j) = scale * vector[j];
    found.shares[axis] = value / trace;
  }
  return found;
}

/// Coordinates of the rows, two each. With `leverage`, also their leverage.
absl::StatusOr<Matrix<double>> Project(const View& view, const Components& components, const RowList& rows,
                                       std::vector<double>* leverage = nullptr) {
  Matrix<double> coordinates(rows.size(), 2);
  const std::size_t m = components.landmarks.rows.size();
  for (std::size_t first = 0; first < rows.size(); first += kBlock) {
    ThrowIfStopRequested();
    const std::size_t count = std::min(kBlock, rows.size() - first);
    const std::span<const RowIndex> of = std::span(rows).subspan(first, count);
    FULCRUM_ASSIGN_OR_RETURN(const Rows block, view.Take(RowList(of.begin(), of.end())));
    FULCRUM_RETURN_IF_ERROR(CheckRows(view, components.kernel, block, of));
    Matrix<double> values(count, m);
    kernel::ComputeKernelBlock(components.kernel, *block.features, block.rows, *components.landmarks.features,
                               components.landmarks.rows, values.view());
    for (std::size_t i = 0; i < count; ++i) {
      double x = 0, y = 0;
      for (std::size_t j = 0; j < m; ++j) {
        const double centred = values(i, j) - components.means[j];
        x += components.weights(0, j) * centred;
        y += components.weights(1, j) * centred;
      }
      // Clients get them as floats, and cells are numbered by them.
      if (!(std::abs(x) < kLargestCoordinate && std::abs(y) < kLargestCoordinate)) {
        return absl::FailedPreconditionError(absl::StrFormat(
            "the pool cannot be drawn: the example '%s' has the coordinates %g and %g; normalize the features",
            view.pool->ids().TextOf(of[i]), x, y));
      }
      coordinates(first + i, 0) = x;
      coordinates(first + i, 1) = y;
      if (leverage == nullptr) continue;
      double sum = 0;
      for (std::size_t k = 0; k < components.leverage.rows(); ++k) {
        const auto weights = components.leverage.view().row(k);
        const double part = std::inner_product(weights.begin(), weights.end(), values.view().row(i).begin(), 0.0);
        sum += part * part;
      }
      leverage->push_back(sum);
    }
  }
  return coordinates;
}

/// Rows that are always shown: those of the open round, and a sample of the labeled ones.
absl::StatusOr<std::set<RowIndex>> MarkedRows(Campaign& campaign, const CampaignPool& pool, std::size_t most,
                                              std::uint64_t seed) {
  std::set<RowIndex> marked;
  for (const storage::ItemStatus status : {storage::ItemStatus::kOffered, storage::ItemStatus::kLabeled}) {
    if (marked.size() >= most) break;
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<storage::FoundItem> found,
                             campaign.store().Run(storage::ListItems, {.statuses = {status}, .most = kMostListed}));
    RowList rows;
    for (const storage::FoundItem& item : found) {
      if (const auto row = pool.ids().Find(item.item.id)) rows.push_back(*row);
    }
    std::sort(rows.begin(), rows.end());
    const RowList some = leverage::SampleRows(rows, most - marked.size(), seed, kMarkedStream);
    marked.insert(some.begin(), some.end());
  }
  return marked;
}

std::size_t MostProjected(const CampaignPool& pool) {
  const double dims = std::min<double>(pool.sparse() ? 200 : 1e9, static_cast<double>(pool.features().dims()));
  return std::min(kMostProjected, static_cast<std::size_t>(kMostNumbers / std::max(dims, 1.0)) + 1);
}

void AddDensity(const Matrix<double>& coordinates, std::span<const int> predicted, std::size_t class_count,
                v1::MapDensity& density) {
  double low[2], size[2];
  for (std::size_t axis = 0; axis < 2; ++axis) {
    double high = -INFINITY;
    low[axis] = INFINITY;
    for (std::size_t i = 0; i < coordinates.rows(); ++i) {
      low[axis] = std::min(low[axis], coordinates(i, axis));
      high = std::max(high, coordinates(i, axis));
    }
    size[axis] = std::max((high - low[axis]) / static_cast<double>(kGrid), 1e-9);
  }
  std::map<std::size_t, std::vector<int>> cells;  // rows per predicted class
  for (std::size_t i = 0; i < coordinates.rows(); ++i) {
    const auto place = [&](std::size_t axis) {
      return std::min(kGrid - 1, static_cast<std::size_t>((coordinates(i, axis) - low[axis]) / size[axis]));
    };
    std::vector<int>& counts = cells[place(1) * kGrid + place(0)];
    counts.resize(class_count + 1, 0);
    ++counts[static_cast<std::size_t>(predicted[i])];
  }
  density.set_left(static_cast<float>(low[0]));
  density.set_bottom(static_cast<float>(low[1]));
  density.set_cell_width(static_cast<float>(size[0]));
  density.set_cell_height(static_cast<float>(size[1]));
  density.set_columns(kGrid);
  density.set_rows(kGrid);
  density.set_projected_rows(static_cast<std::int64_t>(coordinates.rows()));
  for (const auto& [index, counts] : cells) {
    v1::MapCell& cell = *density.add_cells();
    cell.set_index(static_cast<std::int32_t>(index));
    cell.set_count(std::accumulate(counts.begin(), counts.end(), 0));
    cell.set_predicted(static_cast<std::int32_t>(std::max_element(counts.begin(), counts.end()) - counts.begin()));
  }
}

int NumberOf(const std::vector<std::string>& classes, const std::string& name) {
  const auto found = std::find(classes.begin(), classes.end(), name);
  return name.empty() || found == classes.end() ? 0 : static_cast<int>(found - classes.begin()) + 1;
}

}  // namespace

absl::StatusOr<v1::GetPoolMapResponse> DrawPool(Campaign& campaign, std::size_t max_points) {
  FULCRUM_ASSIGN_OR_RETURN(const View view, ViewOf(campaign));
  const CampaignPool& pool = *view.pool;
  const std::shared_ptr<const CampaignPlan> plan = campaign.plan();
  v1::GetPoolMapResponse map;
  map.set_round(campaign.Describe().round());
  map.set_pool_rows(static_cast<std::int64_t>(pool.rows()));
  for (const std::string& name : plan->classes) map.add_classes(name);
  RowList all(pool.rows());
  std::iota(all.begin(), all.end(), RowIndex{0});
  FULCRUM_ASSIGN_OR_RETURN(const Components components, FindComponents(view, all, plan->round.seed, plan->round.tau));

  const bool whole = pool.rows() <= max_points;
  FULCRUM_ASSIGN_OR_RETURN(const std::set<RowIndex> marked,
                           MarkedRows(campaign, pool, std::min(kMostMarked, max_points), plan->round.seed));
  RowList rows = all;
  if (!whole) {
    rows = leverage::SampleRows(all, std::max(max_points, MostProjected(pool)), plan->round.seed, kSampleStream);
  }
  std::set<RowIndex> shown(marked);
  const RowList sample = leverage::SampleRows(rows, max_points - marked.size(), plan->round.seed, kSampleStream + 1);
  if (whole) shown.insert(all.begin(), all.end());
  if (!whole) shown.insert(sample.begin(), sample.end());

  storage::RoundScores scores;
  if (map.round() > 0) {
    auto read = storage::ReadRoundScores(campaign.store().folder(), map.round());
    // Without them the picture has no colours, and is still a picture.
    if (read.ok()) scores = *std::move(read);
  }
  const auto predicted_of = [&](RowIndex row) {
    return row < scores.predicted.size() ? NumberOf(plan->classes, scores.predicted[row]) : 0;
  };
  const RowList points(shown.begin(), shown.end());
  // A strategy that needs no scores stores zeros.
  const bool scored = std::any_of(scores.leverage.begin(), scores.leverage.end(), [](double one) { return one != 0; });
  std::vector<double> leverage;
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> coordinates,
                           Project(view, components, points, scored ? nullptr : &leverage));
  for (std::size_t i = 0; i < points.size(); ++i) {
    v1::MapPoint& point = *map.add_points();
    point.set_item_id(pool.ids().TextOf(points[i]));
    point.set_x(static_cast<float>(coordinates(i, 0)));
    point.set_y(static_cast<float>(coordinates(i, 1)));
    point.set_predicted(predicted_of(points[i]));
    if (!scored) point.set_leverage(static_cast<float>(leverage[i]));
    if (scored && points[i] < scores.leverage.size()) {
      point.set_leverage(static_cast<float>(scores.leverage[points[i]]));
    }
  }
  if (!whole) {
    FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> projected, Project(view, components, rows));
    std::vector<int> predicted;
    for (const RowIndex row : rows) predicted.push_back(predicted_of(row));
    AddDensity(projected, predicted, plan->classes.size(), *map.mutable_density());
  }
  for (const double share : components.shares) map.add_variance_shares(share);
  const bool as_given = view.normalize.empty() || view.normalize == "none";
  map.set_method(absl::StrFormat("%s, %d landmarks%s%s", kernel::DescribeKernel(components.kernel),
                                 components.landmarks.rows.size(), as_given ? "" : ", features by ",
                                 as_given ? "" : DescribeNormalization(view.normalize)));
  return map;
}

absl::StatusOr<v1::GetPoolMapResponse> PoolMaps::Get(Campaign& campaign, std::size_t max_points) {
  const std::shared_ptr<Entry> entry = [&] {
    const std::scoped_lock lock(mutex_);
    if (last_.size() > kMostKept) last_.clear();
    std::shared_ptr<Entry>& found = last_[campaign.name()];
    if (found == nullptr) found = std::make_shared<Entry>();
    return found;
  }();
  std::shared_ptr<const v1::GetPoolMapResponse> map;
  {
    // Who asks meanwhile waits for the same picture.
    const std::scoped_lock lock(entry->mutex);
    const std::int64_t round = campaign.Describe().round();
    const std::shared_ptr<const CampaignPool> pool = campaign.pool();
    if (entry->map == nullptr || entry->map->round() != round || entry->pool.lock() != pool ||
        entry->max_points != max_points) {
      FULCRUM_ASSIGN_OR_RETURN(v1::GetPoolMapResponse drawn, DrawPool(campaign, max_points));
      entry->map = std::make_shared<const v1::GetPoolMapResponse>(std::move(drawn));
      entry->pool = pool;
      entry->max_points = max_points;
    }
    map = entry->map;
  }
  v1::GetPoolMapResponse answer = *map;
  storage::FindItemsRequest wanted;
  for (const v1::MapPoint& point : answer.points()) wanted.ids.push_back(point.item_id());
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<storage::FoundItem> found,
                           campaign.store().Run(storage::FindItems, wanted));
  const std::vector<std::string> classes(answer.classes().begin(), answer.classes().end());
  for (int i = 0; i < answer.points_size(); ++i) {
    const storage::FoundItem& item = found[static_cast<std::size_t>(i)];
    v1::MapPoint& point = *answer.mutable_points(i);
    point.set_state(ItemStateOf(item));
    if (item.item.status == storage::ItemStatus::kLabeled) point.set_label(NumberOf(classes, item.item.value));
    point.set_selected(item.item.round > 0 && item.item.round == answer.round());
  }
  return answer;
}

}  // namespace fulcrum::pipeline
