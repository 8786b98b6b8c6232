#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/landmark_engine.h"
#include "stages/leverage/landmarks.h"
#include "stages/leverage/leverage_scores.h"

namespace fulcrum::leverage {
namespace {

// Squares of it are finite in single precision, in which the landmarks' columns are.
constexpr double kLargestSharedValue = 1e18;

/// What the root finds and every rank needs to score its rows.
struct Solution {
  std::size_t rank = 0;
  double trace_share = 0;
  double captured_share = 0;
  Matrix<float> projection = {};    // landmarks x rank
  std::vector<double> unseen = {};  // by landmark; empty: landmarks are not corrected
};

class SharedRun {
 public:
  SharedRun(const kernel::KernelFunction& kernel, const SharedClass& shared, const ClassRequest& request)
      : kernel_(kernel), shared_(shared), request_(request) {
    const std::vector<std::size_t> sizes = ShareValue(shared.peers, shared.rows.size());
    const auto mine = sizes.begin() + shared.peers.rank();
    first_ = std::accumulate(sizes.begin(), mine, std::size_t{0});
    size_ = std::accumulate(mine, sizes.end(), first_);
  }

  absl::StatusOr<ClassScores> Run() {
    FULCRUM_RETURN_IF_ERROR(AgreeOn(shared_.peers, kernel::CheckKernelValues(kernel_, shared_.features.squared_norms(),
                                                                             shared_.rows, kLargestSharedValue)));
    const double diagonal = LargestDiagonal();
    const double trace = Trace(diagonal);
    FULCRUM_RETURN_IF_ERROR(AgreeOn(shared_.peers, CheckScorable(request_.tau, size_, trace)));
    FULCRUM_RETURN_IF_ERROR(AgreeOn(shared_.peers, CheckRank()));
    const std::size_t guests_before = shared_.features.rows();
    const std::size_t count = request_.landmarks > 0 ? std::min(request_.landmarks, size_) : DefaultLandmarks(size_);
    const RowList landmarks = ShareAt(SamplePositions(size_, count, request_.seed, kLandmarkStream));
    const kernel::KernelTiles<float> columns(kernel_, shared_.features, landmarks);
    std::size_t summed = 0;
    absl::StatusOr<Solution> solution = Solve(columns, diagonal, trace, summed);
    FULCRUM_RETURN_IF_ERROR(AgreeOn(shared_.peers, solution.status()));
    BroadcastSolution(*solution, count);
    const LeadingVectors vectors =
        VectorsSeen({&columns, &solution->projection, solution->unseen, own_landmarks_, first_own_landmark_});
    LandmarkPass pass = ScoreRows(kernel_, shared_.features, vectors, shared_.rows, /*sample=*/{}, BlocksInTurns());
    shared_.features.DropFrom(guests_before);

    ClassScores result;
    result.rows.assign(shared_.rows.begin(), shared_.rows.end());
    result.scores = std::move(pass.scores);
    result.rank = solution->rank;
    result.trace_share = solution->trace_share;
    result.engine = "landmark";
    result.reason = absl::StrFormat("%d landmarks capture %.3f of the trace; summed over %d of %d rows in %d processes",
                                    count, solution->captured_share, summed, size_, shared_.peers.size());
    return result;
  }

 private:
  double LargestDiagonal() const {
    double largest = 0;
    for (const RowIndex row : shared_.rows) {
      largest = std::max(largest, kernel::KernelDiagonal(kernel_, shared_.features.squared_norms()[row]));
    }
    return std::ranges::max(ShareValue(shared_.peers, largest));
  }

  double Trace(double diagonal) const {
    double trace = TraceOfRows(kernel_, shared_.features, shared_.rows, diagonal * static_cast<double>(size_));
    shared_.peers.ReduceSum(std::span(&trace, 1));
    return BroadcastValue(shared_.peers, trace);
  }

  /// The rows at these positions of the class become guests of every rank.
  RowList ShareAt(const std::vector<std::uint64_t>& positions) {
    own_landmarks_.clear();
    first_own_landmark_ = positions.size();
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] < first_ || positions[i] >= first_ + shared_.rows.size()) continue;
      if (own_landmarks_.empty()) first_own_landmark_ = i;
      own_landmarks_.push_back(shared_.rows[positions[i] - first_]);
    }
    return shared_.features.Add(kernel::ShareRows(shared_.peers, shared_.features, own_landmarks_).view());
  }

  /// Classes whose kernel has a very low rank have other scores in one process.
  absl::Status CheckRank() {
    if (size_ < kFewestRowsOfLowRank) return absl::OkStatus();
    const std::size_t guests_before = shared_.features.rows();
    const RowList sample = ShareAt(LowRankSample(size_));
    const bool low = SampleHasLowRank(kernel_, shared_.features, sample);
    shared_.features.DropFrom(guests_before);
    if (!low) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrFormat("the kernel of a class of %d rows has a rank of at most %d: leverage of such a class is not "
                        "computed by several processes. Run it in one process, or choose the rbf kernel.",
                        size_, kMostColumnsOfLowRank));
  }

  /// At the root; elsewhere only the own rows are summed.
  absl::StatusOr<Solution> Solve(const kernel::KernelTiles<float>& columns, double diagonal, double trace,
                                 std::size_t& summed) const {
    const Communicator& peers = shared_.peers;
    const RowList part = SummedPart(shared_.rows, size_, LandmarkRequest().most_summed, shared_.share.first);
    const std::vector<std::size_t> parts = ShareValue(peers, part.size());
    summed = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
    LandmarkGram gram(columns, OrderOfClass(shared_.share.total, size_, diagonal));
    gram.Add(part, BlocksInTurns());
    gram.SumOverRanks(peers);
    Solution solution;
    if (!peers.is_root()) return solution;
    FULCRUM_ASSIGN_OR_RETURN(const KernelSubspace span,
                             KernelSubspace::OfLandmarks(kernel_, shared_.features, columns.columns()));
    const double share = static_cast<double>(size_) / static_cast<double>(summed);
    FULCRUM_ASSIGN_OR_RETURN(SpanSolution found,
                             span.Solve(gram.Symmetric(share), trace, request_.tau, request_.seed, {}));
    solution.rank = found.eigen.rank;
    solution.trace_share = found.eigen.trace_share;
    solution.captured_share = found.captured_share;
    solution.projection = std::move(found.projection);
    if (size_ >= kLeastRowsForOne * columns.size()) solution.unseen = span.OwnParts();
    return solution;
  }

  void BroadcastSolution(Solution& solution, std::size_t landmarks) const {
    const Communicator& peers = shared_.peers;
    if (peers.is_alone()) return;
    solution.rank = BroadcastValue(peers, solution.rank);
    solution.trace_share = BroadcastValue(peers, solution.trace_share);
    solution.captured_share = BroadcastValue(peers, solution.captured_share);
    BroadcastValues(peers, solution.unseen);
    std::vector<float> projection;
    for (std::size_t i = 0; i < solution.projection.rows(); ++i) {
      projection.insert(projection.end(), solution.projection.row(i).begin(), solution.projection.row(i).end());
    }
    BroadcastValues(peers, projection);
    solution.projection = Matrix<float>::CopyOf(MatrixView<const float>(projection.data(), landmarks, solution.rank));
  }

  const kernel::KernelFunction& kernel_;
  const SharedClass& shared_;
  const ClassRequest& request_;
  std::size_t first_ = 0;  // position of the first own row in the class
  std::size_t size_ = 0;   // rows of the class
  RowList own_landmarks_;
  std::size_t first_own_landmark_ = 0;
};

}  // namespace

absl::StatusOr<ClassScores> ScoreSharedClass(const kernel::KernelFunction& kernel, const SharedClass& shared,
                                             const ClassRequest& request) {
  return SharedRun(kernel, shared, request).Run();
}

}  // namespace fulcrum::leverage
