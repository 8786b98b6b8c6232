// `fulcrum convert`: a table from one format to another.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/commands/options.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_conversion.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kFooter[] =
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
  app.footer(kFooter);
  return [options] { return Convert(*options); };
}

}  // namespace

Command ConvertCommand() {
  return {"convert", "Data", "Write a table in another format", AddConvert};
}

}  // namespace fulcrum::pipeline
