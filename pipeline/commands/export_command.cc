// `fulcrum export`: labels with where they come from.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "pipeline/commands/command_registry.h"
#include "pipeline/text_sink.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/parquet_file.h"
#include "storage/campaign_reader.h"
#include "storage/label_export.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kFooter[] =
    R"(One row for every label that was given, changed, withdrawn or imported, in the order of the log:
  sequence     number of the event in the log; a model's sequence number refers to these
  kind         label_submitted, label_changed, label_withdrawn or label_imported
  item, label  what was labeled, and as what
  annotator    who said so; of an imported label, where it comes from
  time         when, in UTC
  lease, epoch, slot, round   under which lease; 0 where there was none
  cost         what it cost
  late         it came after its lease had ended; it counts all the same
  request_id   under which it was sent
  counts       it is what this annotator says today
  item_status  what became of the item: labeled, disputed, set aside, offered, in pool
  decision     the item's label today; empty where there is none

The format is that of the file's name: .csv, .csv.gz or .parquet; - is CSV on standard output. Works while a daemon
runs, and sees what was committed when it started.

Example:
  fulcrum export campaigns/birds --out labels.parquet)";

struct ExportOptions {
  std::string campaign;
  std::string out;
};

constexpr std::size_t kTextBytes = 1 << 20;

absl::Status ExportCsv(storage::CampaignReader& reader, const std::string& out) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TextSink> sink, OpenTextSink(out));
  std::string text = storage::LabelCsvHeader();
  const auto write = [&](const storage::ExportedLabel& label) -> absl::Status {
    storage::AppendLabelCsv(label, text);
    if (text.size() < kTextBytes) return absl::OkStatus();
    return sink->Write(std::exchange(text, {}));
  };
  FULCRUM_RETURN_IF_ERROR(storage::VisitLabels(reader, write));
  FULCRUM_RETURN_IF_ERROR(sink->Write(text));
  FULCRUM_RETURN_IF_ERROR(sink->Finish());
  return sink->Commit();
}

absl::Status ExportParquet(storage::CampaignReader& reader, const std::string& out) {
  std::vector<storage::ExportedLabel> labels;
  FULCRUM_RETURN_IF_ERROR(storage::VisitLabels(reader, [&](const storage::ExportedLabel& label) {
    labels.push_back(label);
    return absl::OkStatus();
  }));
  FULCRUM_ASSIGN_OR_RETURN(const auto table, storage::LabelTable(labels));
  return ingest::WriteParquetFile(*table, out);
}

absl::Status Export(const ExportOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(options.campaign));
  const bool parquet = absl::EndsWithIgnoreCase(options.out, ".parquet");
  return parquet ? ExportParquet(*reader, options.out) : ExportCsv(*reader, options.out);
}

CommandRun AddExport(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  app.add_option("campaign", options->campaign, "Folder of the campaign")->type_name("")->required();
  app.add_option("--out", options->out, "File to write: .csv, .csv.gz or .parquet; - is standard output")
      ->type_name("FILE")
      ->required();
  app.footer(kFooter);
  return [options] { return Export(*options); };
}

}  // namespace

Command ExportCommand() {
  return {"export", "Campaigns", "Write a campaign's labels with who, when, lease, round and cost", AddExport};
}

}  // namespace fulcrum::pipeline
