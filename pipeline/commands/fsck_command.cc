// `fulcrum fsck`: checks a campaign from the disk up, and rebuilds what is derived from its log.

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_registry.h"
#include "stages/core/status_macros.h"
#include "storage/fsck.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kFooter[] =
    R"(Checks, in this order: the pages of campaign.db; that its log is protected against changes; every event of the log,
by replaying it (epochs grow, no slot is leased twice, no request takes effect twice); the tables of items, slots,
leases and rounds, which are derived from the log; the files of rounds and models; every block of the pool, by its
checksum. Works while a daemon runs.

--rebuild first writes the derived tables anew from the log, and brings an older schema up to date. Stop the daemon
before. The log itself is never changed: where it is damaged, restore a backup.

Exit code 0 where all is well, 65 where something is not; every problem is a line on standard output.

Example:
  fulcrum fsck campaigns/birds)";

struct FsckOptions {
  std::string campaign;
  bool rebuild = false;
};

absl::Status Fsck(const FsckOptions& options) {
  if (options.rebuild) FULCRUM_RETURN_IF_ERROR(storage::RebuildCampaign(options.campaign));
  FULCRUM_ASSIGN_OR_RETURN(const storage::FsckReport report, storage::CheckCampaign(options.campaign));
  std::printf("%lld events, %lld labels, %lld items, %lld rounds, %lld models; derived tables up to event %lld%s\n",
              static_cast<long long>(report.events), static_cast<long long>(report.labels),
              static_cast<long long>(report.items), static_cast<long long>(report.rounds),
              static_cast<long long>(report.models), static_cast<long long>(report.tables_through),
              options.rebuild ? ", rebuilt" : "");
  for (const std::string& problem : report.problems) std::printf("problem: %s\n", problem.c_str());
  if (report.problems.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("campaign '", options.campaign, "' has ", report.problems.size(),
                                          " problem(s), listed above; where only derived ",
                                          "tables differ, --rebuild mends them, otherwise restore a backup"));
}

CommandRun AddFsck(CLI::App& app) {
  auto options = std::make_shared<FsckOptions>();
  app.add_option("campaign", options->campaign, "Folder of the campaign")->type_name("")->required();
  app.add_flag("--rebuild", options->rebuild, "Write the derived tables anew from the log");
  app.footer(kFooter);
  return [options] { return Fsck(*options); };
}

}  // namespace

Command FsckCommand() {
  return {"fsck", "Campaigns", "Check a campaign, and rebuild what is derived from its log", AddFsck};
}

}  // namespace fulcrum::pipeline
