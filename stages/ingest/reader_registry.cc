#include "stages/ingest/reader_registry.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "stages/ingest/csv_source.h"
#include "stages/ingest/input_stream.h"
#include "stages/ingest/parquet_source.h"

namespace fulcrum::ingest {
namespace {

std::string KnownEndings() {
  std::vector<std::string> endings;
  for (const TableReader& reader : TableReaders()) {
    endings.insert(endings.end(), reader.endings.begin(), reader.endings.end());
  }
  return absl::StrJoin(endings, ", ");
}

}  // namespace

const std::vector<TableReader>& TableReaders() {
  static const auto* const readers = new std::vector<TableReader>{
      {"CSV", {".csv"}, OpenCsv},
      {"Parquet", {".parquet"}, OpenParquet},
  };
  return *readers;
}

absl::StatusOr<std::unique_ptr<TableSource>> OpenTable(const std::string& path, const TableRequest& request) {
  const absl::string_view name = WithoutCompressionEnding(path);
  for (const TableReader& reader : TableReaders()) {
    for (const std::string& ending : reader.endings) {
      if (absl::EndsWithIgnoreCase(name, ending)) return reader.open(path, request);
    }
  }
  return absl::DataLossError(absl::StrCat("cannot tell the format of '", path, "' by its ending; known are ",
                                          KnownEndings(), " (.csv also with .gz or .zst)"));
}

}  // namespace fulcrum::ingest
