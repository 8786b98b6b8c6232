// Complete rounds over a pool on disk: the first one, and two warm ones after their batches are labeled.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "arrow/api.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/round.h"
#include "stages/linalg/blas.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_writer.h"
#include "tests/benchmarks/large_sections.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kDims = 64;
constexpr std::size_t kLatent = 12;
constexpr std::size_t kRowsPerBlock = 16384;
constexpr std::size_t kBatch = 1000;
constexpr std::size_t kLabelsAtStart = 1000;
constexpr std::size_t kMemory = std::size_t{2} << 30;

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", std::string(value.status().message()).c_str());
  std::exit(1);
}
void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

std::shared_ptr<arrow::RecordBatch> AsBatch(ConstMatrixView rows) {
  arrow::FloatBuilder values;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    for (const double value : rows.row(i)) (void)values.Append(static_cast<float>(value));
  }
  const auto lists =
      arrow::FixedSizeListArray::FromArrays(values.Finish().ValueOrDie(), static_cast<int>(kDims)).ValueOrDie();
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("e", lists->type())}),
                                  static_cast<std::int64_t>(rows.rows()), {lists});
}

/// Writes the pool. Returns the true class of each row, which is its side of a plane.
std::vector<ClassIndex> WritePool(const std::string& folder, std::size_t rows) {
  std::vector<ClassIndex> truth;
  std::unique_ptr<storage::PoolWriter> writer;
  for (std::size_t first = 0; first < rows; first += kRowsPerBlock) {
    const std::size_t count = std::min(kRowsPerBlock, rows - first);
    // The map from latent dimensions depends on the seed, the rows depend on the block.
    const Matrix<double> block = EmbeddingLikeRows(count, kDims, kLatent, 5, first);
    for (std::size_t i = 0; i < count; ++i) truth.push_back(block(i, 0) + 0.5 * block(i, 1) > 0 ? 1 : 0);
    const auto batch = AsBatch(block.view());
    auto roles = Must(ingest::AssignRoles(*batch->schema(), {}, "benchmark"));
    ingest::SettleWidths(*batch, roles);
    if (!writer) writer = Must(storage::PoolWriter::Open(folder, storage::ShapeFor(roles), roles.FeatureNames()));
    Must(writer->Append(Must(storage::BuildBlock(*batch, roles, {})), [](std::uint64_t) { return "benchmark"; }));
  }
  Must(writer->Commit(0));
  return truth;
}

struct Taken {
  double seconds = 0, processor_seconds = 0;
};

/// Seconds since construction.
class Watch {
 public:
  Taken Read() const {
    return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(),
            ProcessorSeconds() - processor_start_};
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double processor_start_ = ProcessorSeconds();
};

void PrintRound(const char* name, const pipeline::RoundResult& result, const Taken& taken) {
  std::printf("  %s: %.1f s, %.1f processor seconds;", name, taken.seconds, taken.processor_seconds);
  for (const pipeline::StageSeconds& stage : result.seconds)
    std::printf(" %s %.1f", stage.stage.c_str(), stage.seconds);
  std::printf("\n    %zu support vectors, decision values of %zu computed\n", result.svm->support_vectors,
              result.svm->decision_columns_computed);
  for (const pipeline::ClassReport& report : result.classes) {
    std::printf("    %zu rows, k %zu, %s: %s\n", report.rows, report.rank, report.engine.c_str(),
                report.reason.c_str());
  }
}

/// Returns the batch of a process that was restarted before this round, as after a crash.
void CompareWithRestart(const pipeline::RoundSpec& spec, const kernel::Features& features,
                        const pipeline::RoundInput& input, const std::map<ClassIndex, RowList>& landmarks,
                        const pipeline::RoundResult& expected) {
  pipeline::RoundRunner restarted(spec, features);
  restarted.RecallLandmarks(landmarks);
  const pipeline::RoundResult result = Must(restarted.Run(input));
  std::set<RowIndex> picks;
  for (const select::Pick& pick : expected.selection.picks) picks.insert(pick.row);
  std::size_t same = 0;
  for (const select::Pick& pick : result.selection.picks) same += picks.count(pick.row);
  PrintAtLeast("share of these picks that a process started again makes",
               static_cast<double>(same) / static_cast<double>(picks.size()), 1);
}

void MeasureRounds(std::size_t rows, const std::string& engine) {
  std::printf("\nRounds over %zu x %zu on the disk, batch %zu, within %zu MiB\n", rows, kDims, kBatch, kMemory >> 20);
  const testing::TemporaryDirectory folder;
  const std::vector<ClassIndex> truth = WritePool(folder.File("pool"), rows);
  PrintFigure("peak memory while the pool was made, which counts no further", PeakMebibytes(), "MiB");
  ForgetPeak();
  const Watch first_watch;
  const auto features = Must(storage::MappedFeatures::Open(Must(storage::MappedPool::Open(folder.File("pool"))),
                                                           Must(ingest::Normalizer::FromStatistics({}, {}, {})),
                                                           pipeline::MappedBytesToKeep(kMemory)));
  std::vector<ClassIndex> labels(rows, kUnlabeled);
  for (std::size_t i = 0; i < kLabelsAtStart; ++i)
    labels[i * (rows / kLabelsAtStart)] = truth[i * (rows / kLabelsAtStart)];
  pipeline::RoundSpec spec;
  spec.strategy = "dbalevs";
  spec.batch = kBatch;
  spec.engine = engine;
  spec.tau = 0.55;
  spec.svm.tolerance = pipeline::kCampaignSvmTolerance;
  spec.memory_bytes = Must(pipeline::MemoryForEngines(kMemory, *features, kLabelsAtStart));
  pipeline::RoundRunner runner(spec, *features);
  const auto input = [&] { return pipeline::RoundInput{.class_count = 2, .labels = labels, .predictions = {}}; };
  pipeline::RoundResult last = Must(runner.Run(input()));
  const Taken first_taken = first_watch.Read();
  PrintRound("first round, with opening the pool", last, first_taken);
  PrintFigure("peak memory so far", PeakMebibytes(), "MiB");
  if (rows <= 1000000) PrintAtMost("first round", first_taken.seconds, 180, "s");
  std::map<ClassIndex, RowList> landmarks;
  for (const char* const name : {"second round, after its batch was labeled", "third round"}) {
    for (const select::Pick& pick : last.selection.picks) labels[pick.row] = truth[pick.row];
    landmarks = runner.Landmarks();
    const Watch watch;
    last = Must(runner.Run(input()));
    const Taken taken = watch.Read();
    PrintRound(name, last, taken);
    const double faster = first_taken.seconds / taken.seconds;
    if (rows <= 1000000) PrintAtLeast("it is faster than the first by", faster, 4);
    if (rows > 1000000) PrintFigure("it is faster than the first by", faster, "x");
    PrintFigure("the same in processor seconds", first_taken.processor_seconds / taken.processor_seconds, "x");
  }
  if (rows <= 1000000) CompareWithRestart(spec, *features, input(), landmarks, last);
  PrintAtMost("peak memory of the process", PeakMebibytes(), 2048, "MiB");
}

}  // namespace

void MeasureHundredThousandRows() {
  MeasureRounds(100000, "landmark");
}

void MeasureMillionRows() {
  MeasureRounds(1000000, "auto");
}

void MeasureTenMillionRows() {
  MeasureRounds(10000000, "auto");
}

}  // namespace fulcrum::benchmarks
