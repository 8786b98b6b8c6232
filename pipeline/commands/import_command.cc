// `fulcrum import`: files of any format into a pool folder that opens immediately.

#include <malloc.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/cluster/cluster_round.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/round/progress.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_writer.h"
#include "storage/pool/pool_manifest.h"
#include "tbb/global_control.h"
#include "tbb/info.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kImportFooter[] =
    R"(Sources: files, folders, globs in quotes ('data/*.parquet'), hive-partitioned folders (lang=en/..., whose names
are columns: an id, label, cost or payload like others, and features if --features names them), by path or
file:// URI, or /dev/stdin; .parquet, .arrow/.ipc/.feather/.arrows (Arrow IPC), .csv, .svm/.libsvm; text and IPC streams also with .gz or
.zst. Several are read as one table. Features are numbers in columns of their own, a column of lists of one
length, or a sparse pair of lists named 'indices' and 'values'.

The folder holds Arrow IPC files, to be mapped into memory; their statistics; and 'rejected.parquet': rows with a
missing, infinite or NaN feature, a list of the wrong length, no id, or an id that another row has, each
with its reason. It appears when it is complete and durable; an import that fails or is killed leaves the pool as
it was and can be run again.

Importing again adds new rows, by id: an existing row is left out, an existing id with other content is rejected.

Under mpirun (a build with MPI) each process imports some of the files, and they become one pool at the end; a pool
that exists is extended by one process only.

Example:
  fulcrum import 'embeddings/*.parquet' --id doc --payload text --out pool
  fulcrum select --pool pool --labels labels.csv
)";

struct ImportCommandOptions {
  ImportOptions import;
  std::string memory = "2GiB";
  std::string max_row_group = "4GiB";
  std::string max_text = "16MiB";
  int threads = 0;
  bool quiet = false;
};

absl::StatusOr<std::int64_t> SizeOption(absl::string_view option, const std::string& text) {
  auto size = ParseByteSize(text);
  if (size.ok()) return size;
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", size.status().message()));
}

absl::Status Complete(ImportCommandOptions& options) {
  if (!(options.import.max_rejected_share >= 0 && options.import.max_rejected_share <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-rejected is ", options.import.max_rejected_share, "; it must be between 0 and 1"));
  }
  if (options.import.limits.max_columns < 1) return absl::InvalidArgumentError("--max-columns must be at least 1");
  if (options.threads < 0) return absl::InvalidArgumentError("--threads must be at least 1");
  if (options.threads == 0) options.threads = tbb::info::default_concurrency();
  FULCRUM_ASSIGN_OR_RETURN(options.import.memory_bytes, SizeOption("--memory", options.memory));
  FULCRUM_ASSIGN_OR_RETURN(options.import.limits.max_row_group_bytes,
                           SizeOption("--max-row-group", options.max_row_group));
  FULCRUM_ASSIGN_OR_RETURN(options.import.limits.max_text_bytes, SizeOption("--max-text", options.max_text));
  return absl::OkStatus();
}

void PrintResult(const ImportResult& result, const std::string& folder) {
  const auto& counts = result.counts;
  std::printf("%s: %lld rows x %lld features; %lld added, %lld existing, %lld rejected\n", folder.c_str(),
              static_cast<long long>(result.manifest.rows()), static_cast<long long>(result.manifest.features),
              static_cast<long long>(counts.added), static_cast<long long>(counts.existing),
              static_cast<long long>(counts.rejected));
  if (counts.rejected > 0 && !result.manifest.rejected_files.empty()) {
    std::printf("rejected rows, with reasons: %s/%s\n", folder.c_str(), result.manifest.rejected_files.back().c_str());
  }
}

// Unpacking allocates and frees memory for every page of a file. Fresh memory from the system costs a page fault per
// 4 KiB, so freed memory stays with the process. Huge pages would save most of the remaining faults, but zeroing them
// costs more than that on a virtual machine whose memory comes from its host when it is first touched. This process
// does nothing but the import and then ends.
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 4 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

/// Storage says what is wrong; the command names the options that help.
absl::Status WithAdvice(const absl::Status& status) {
  const char* advice = absl::IsDataLoss(status) ? "--features, --ignore and --max-rejected decide what is rejected"
                       : absl::IsResourceExhausted(status) ? "--memory is the limit"
                                                           : nullptr;
  return advice == nullptr ? status : absl::Status(status.code(), absl::StrCat(status.message(), "\n  ", advice));
}

absl::Status Import(ImportCommandOptions options, const Communicator& peers) {
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, Complete(options)));
  KeepFreedMemory();
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(options.threads));
  Progress progress("fulcrum import", ChooseProgressStyle(options.quiet || !peers.is_root(), /*verbose=*/false));
  options.import.control.on_progress = [&](std::size_t rows) { progress.Update("rows", rows, 0); };
  const absl::StatusOr<ImportResult> result = ImportPoolTogether(options.import, peers);
  if (!result.ok()) return WithAdvice(result.status());
  progress.Clear();
  if (!options.quiet && peers.is_root()) PrintResult(*result, options.import.folder);
  return absl::OkStatus();
}

void AddLimits(CLI::App& app, ImportCommandOptions& options) {
  const char* group = "Limits";
  app.add_option("--memory", options.memory, "Memory that the import may use")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group(group);
  app.add_option("--max-rejected", options.import.max_rejected_share,
                 "Fail when a larger share of the rows is rejected, 0 to 1")
      ->capture_default_str()
      ->type_name("SHARE")
      ->group(group);
  app.add_option("--max-columns", options.import.limits.max_columns, "Refuse files with more columns")
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  app.add_option("--max-row-group", options.max_row_group, "Refuse files with larger row groups")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group(group);
  app.add_option("--max-text", options.max_text, "Reject rows with a longer id, label or payload")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group(group);
}

CommandRun AddImport(CLI::App& app) {
  auto options = std::make_shared<ImportCommandOptions>();
  app.add_option("source", options->import.sources, "Files, folders, globs or file:// URIs")
      ->type_name("SOURCE")
      ->required();
  app.add_option("--out", options->import.folder, "The folder of the pool; an existing pool is extended")
      ->type_name("FOLDER")
      ->required();
  AddColumnFlags(app, options->import.columns);
  AddLimits(app, *options);
  app.add_option("--threads", options->threads, "Number of threads; default: all cores")->type_name("N");
  app.add_flag("--quiet", options->quiet, "Print nothing unless something is wrong");
  app.footer(kImportFooter);
  return [options] {
    return RunInProcesses("fulcrum import", ExitCodeFor,
                          [&](const Communicator& peers) { return Import(*options, peers); });
  };
}

}  // namespace

Command ImportCommand() {
  return {"import", "Data", "Import files of any format into a pool that opens immediately", AddImport,
          Command::Processes::kDivideTheWork};
}

// `fulcrum convert`: a table from one format to another.

namespace {

constexpr char kConvertFooter[] =
    R"(Formats, by the ending: .csv, .parquet, .arrow/.ipc/.feather (Arrow IPC file), .arrows (IPC stream),
.svm/.libsvm; .csv, .arrows and .svm also with .gz or .zst. IN may also be a folder, a glob in quotes or an
imported pool.

Columns of CSV that are numbers throughout become numbers. LIBSVM's rows become a pair of lists, 'indices' (from
0) and 'values', or, in CSV, all of their columns. Going to LIBSVM, ids are lost: the format has no place for
them.

Example:
  fulcrum convert news.svm.gz news.parquet
)";

struct ConvertOptions {
  std::string in;
  std::string out;
  std::string memory = "2GiB";
  bool quiet = false;
};

absl::Status Convert(const ConvertOptions& options) {
  // A pool's folder holds other files than its rows.
  const std::string in = storage::IsPoolFolder(options.in) ? options.in + "/part-*.arrow" : options.in;
  FULCRUM_ASSIGN_OR_RETURN(const ingest::InputLimits limits, LimitsOf(options.memory));
  const absl::StatusOr<std::int64_t> rows = ingest::ConvertTable({in}, options.out, limits);
  FULCRUM_RETURN_IF_ERROR(WithMemoryAdvice(rows.status(), options.memory));
  if (!options.quiet) std::printf("%s: %lld rows\n", options.out.c_str(), static_cast<long long>(*rows));
  return absl::OkStatus();
}

CommandRun AddConvert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  app.add_option("in", options->in, "What to read")->type_name("IN")->required();
  app.add_option("out", options->out, "The file to write")->type_name("OUT")->required();
  AddMemoryOption(app, options->memory);
  app.add_flag("--quiet", options->quiet, "Print nothing unless something is wrong");
  app.footer(kConvertFooter);
  return [options] { return Convert(*options); };
}

}  // namespace

Command ConvertCommand() {
  return {"convert", "Data", "Write a table in another format", AddConvert};
}

}  // namespace fulcrum::pipeline
