// Compares the import of 2,000,000 x 64 float32 Parquet with only reading the file by Arrow; measures opening
// 20,000,000 rows.
//
// FULCRUM_IMPORT_ROWS sets the number of rows. The time must grow with it and the memory must not.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/io/file.h"
#include "arrow/record_batch.h"
#include "arrow/table.h"
#include "parquet/arrow/reader.h"
#include "parquet/arrow/writer.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "storage/pool/mapped_pool.h"
#include "storage/pool/pool_writer.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::int64_t kRowsPerGroup = 1 << 20;  // as pyarrow writes
constexpr std::int64_t kRowsPerChunk = 1 << 17;
constexpr int kFeatures = 64;
constexpr int kRepeats = 5;  // alternating, so that both run under the same load; the fastest run of each counts

void Check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

std::shared_ptr<arrow::RecordBatch> RandomBatch(std::int64_t first_row, std::int64_t rows, int features) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns(static_cast<std::size_t>(features));
  for (int i = 0; i < features; ++i) fields.push_back(arrow::field(absl::StrCat("f", i), arrow::float32(), false));
  ParallelForBlocks(columns.size(), 1, [&](std::size_t column, std::size_t) {
    Random random = Random::Fork(static_cast<std::uint64_t>(first_row), column);
    std::vector<float> values(static_cast<std::size_t>(rows));
    for (float& value : values) value = static_cast<float>(random.Normal());
    columns[column] = std::make_shared<arrow::FloatArray>(rows, arrow::Buffer::FromVector(std::move(values)));
  });
  return arrow::RecordBatch::Make(arrow::schema(fields), rows, columns);
}

void WriteParquet(const std::string& path, std::int64_t rows) {
  const auto schema = RandomBatch(0, 1, kFeatures)->schema();
  const auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  const auto properties = parquet::WriterProperties::Builder()
                              .compression(arrow::Compression::ZSTD)
                              ->max_row_group_length(kRowsPerGroup)
                              ->build();
  auto writer = parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), file, properties).ValueOrDie();
  for (std::int64_t row = 0; row < rows; row += kRowsPerChunk) {
    Check(writer->WriteRecordBatch(*RandomBatch(row, std::min(kRowsPerChunk, rows - row), kFeatures)));
  }
  Check(writer->Close());
  // Flush pending writes, so that they do not happen during the measured import.
  if (fsync(file->file_descriptor()) != 0) throw std::runtime_error("the source is not on the disk");
  Check(file->Close());
}

void ReadWithArrow(const std::string& path, bool use_threads) {
  parquet::arrow::FileReaderBuilder builder;
  Check(builder.OpenFile(path));
  parquet::ArrowReaderProperties properties(use_threads);
  auto reader = builder.properties(properties)->Build().ValueOrDie();
  const auto table = reader->ReadTable().ValueOrDie();
  if (table->num_columns() != kFeatures) throw std::runtime_error("the file is not what was written");
}

struct ImportFigures {
  double seconds = 0;
  double processor_seconds = 0;
  double memory_mib = 0;
};

/// Runs the program and measures it.
ImportFigures RunImport(const std::string& source, const std::string& pool) {
  std::filesystem::remove_all(pool);
  ImportFigures figures;
  rusage usage{};
  int status = 0;
  figures.seconds = FastestSeconds(1, [&] {
    const pid_t child = fork();
    if (child == 0) {
      execl(FULCRUM_PROGRAM, FULCRUM_PROGRAM, "import", source.c_str(), "--out", pool.c_str(), "--quiet", nullptr);
      _exit(127);
    }
    wait4(child, &status, 0, &usage);
  });
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  figures.processor_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  figures.memory_mib = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? static_cast<double>(usage.ru_maxrss) / 1024 : 0;
  return figures;
}

/// The peak memory of a child process includes that of the process it was forked from. Imports are therefore started by
/// a small process that is forked before this one grows.
class SmallStarter {
 public:
  SmallStarter(std::string source, std::string pool) {
    if (pipe(requests_) != 0 || pipe(answers_) != 0) throw std::runtime_error("cannot make a pipe");
    if (fork() != 0) return;
    for (char request = 0; read(requests_[0], &request, 1) == 1 && request == 'i';) {
      const ImportFigures figures = RunImport(source, pool);
      if (write(answers_[1], &figures, sizeof(figures)) != sizeof(figures)) break;
    }
    _exit(0);
  }
  ~SmallStarter() { (void)!write(requests_[1], "x", 1); }

  ImportFigures Import() {
    ImportFigures figures;
    const bool answered =
        write(requests_[1], "i", 1) == 1 && read(answers_[0], &figures, sizeof(figures)) == sizeof(figures);
    if (!answered || figures.memory_mib == 0) throw std::runtime_error("the import failed");
    return figures;
  }

 private:
  int requests_[2];
  int answers_[2];
};

void CompareImport(const testing::TemporaryDirectory& folder, SmallStarter& starter) {
  const char* wanted = std::getenv("FULCRUM_IMPORT_ROWS");
  const std::int64_t rows = wanted == nullptr ? 2'000'000 : std::atoll(wanted);
  const std::string source = folder.File("source.parquet");
  WriteParquet(source, rows);
  std::printf("\nimport of %lld x %d float32 Parquet (zstd), %.0f MiB\n", static_cast<long long>(rows), kFeatures,
              static_cast<double>(std::filesystem::file_size(source)) / (1 << 20));
  double memory = 0, import = 1e300, one_thread = 1e300, threads = 1e300, import_cpu = 1e300, arrow_cpu = 1e300;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const ImportFigures figures = starter.Import();
    import = std::min(import, figures.seconds);
    import_cpu = std::min(import_cpu, figures.processor_seconds);
    memory = std::max(memory, figures.memory_mib);
    one_thread = std::min(one_thread, FastestSeconds(1, [&] {
                            arrow_cpu =
                                std::min(arrow_cpu, FastestCpuSeconds(1, [&] { ReadWithArrow(source, false); }));
                          }));
    threads = std::min(threads, FastestSeconds(1, [&] { ReadWithArrow(source, true); }));
  }
  PrintFigure("import, whole process, on the disk", import, "s");
  PrintFigure("Arrow reads the file into memory, its threads on", threads, "s");
  PrintFigure("Arrow reads the file into memory, one thread", one_thread, "s");
  PrintAtLeast("rate of the import / rate of Arrow, threads on", threads / import, 0.7);
  PrintFigure("rate of the import / rate of Arrow, one thread", one_thread / import, "x");
  // The minimum is least affected by other load.
  PrintFigure("import, processor seconds", import_cpu, "s");
  PrintFigure("Arrow, processor seconds", arrow_cpu, "s");
  PrintAtMost("peak memory", memory, 1024, "MiB");
}

void TimeOpening(const testing::TemporaryDirectory& folder) {
  constexpr std::int64_t kRows = 20'000'000, kRowsPerBlock = 65536;
  constexpr int kFew = 4;
  const std::string path = folder.File("large");
  const auto batch = RandomBatch(1, kRowsPerBlock, kFew);
  const auto roles = *ingest::AssignRoles(*batch->schema(), {}, path);
  const auto built = *storage::BuildBlock(*batch, roles, {});
  auto writer = *storage::PoolWriter::Open(path, storage::ShapeFor(roles), roles.FeatureNames());
  for (std::int64_t row = 0; row < kRows; row += kRowsPerBlock) {
    (void)writer->Append(built, [](std::uint64_t) { return std::string(); });
  }
  if (!writer->Commit(0).ok()) throw std::runtime_error("the pool was not written");
  std::printf("\na pool of %lld rows\n", static_cast<long long>(writer->manifest().rows()));
  const double seconds = FastestSeconds(3, [&] {
    if (storage::MappedPool::Open(path)->rows() < kRows) throw std::runtime_error("rows are missing");
  });
  PrintAtMost("opens in", seconds, 1, "s");
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  const fulcrum::testing::TemporaryDirectory folder;
  fulcrum::benchmarks::SmallStarter starter(folder.File("source.parquet"), folder.File("pool"));
  fulcrum::benchmarks::CompareImport(folder, starter);
  fulcrum::benchmarks::TimeOpening(folder);
}
