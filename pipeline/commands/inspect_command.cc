// `fulcrum inspect`: what is in an imported pool.

#include <cstdio>
#include <memory>
#include <string>

#include "pipeline/commands/command_registry.h"
#include "pipeline/commands/option_checks.h"
#include "pipeline/commands/pool_summary.h"
#include "stages/core/status_macros.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kFooter[] = R"(Reads every row once and compares all checksums.

Example:
  fulcrum inspect pool --json
)";

struct InspectOptions {
  std::string folder;
  bool json = false;
  std::size_t features = 10;
};

absl::Status Inspect(const InspectOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool pool, storage::MappedPool::Open(options.folder));
  FULCRUM_ASSIGN_OR_RETURN(const PoolSummary summary, SummarizePool(pool));
  const std::string text = options.json ? SummaryJson(pool, summary) : SummaryText(pool, summary, options.features);
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

CommandRun AddInspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  app.add_option("pool", options->folder, "The folder of an imported pool")->type_name("FOLDER")->required();
  app.add_flag("--json", options->json, "For programs, with every feature");
  app.add_option("--features", options->features, "How many features to show in the table")
      ->check(WholeNumber())
      ->capture_default_str()
      ->type_name("N");
  app.footer(kFooter);
  return [options] { return Inspect(*options); };
}

}  // namespace

Command InspectCommand() {
  return {"inspect", "Data", "Tell what an imported pool holds", AddInspect};
}

}  // namespace fulcrum::pipeline
