// `fulcrum annotators list|pause|resume|errors`: how good annotators are, who gets tasks, and labels to review.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fulcrum/v1/annotator_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kAnnotatorsFooter[] =
    R"(The accuracy of an annotator is the expected share of its answers that are right under the consensus of all
annotators and of examples with known answers; the interval says how much is known about it. Known answers are imported
with 'fulcrum campaign import-labels CAMPAIGN FILE --source gold'; 'labeling.gold.rate' in the specification mixes them
in.
A 'drift' of -3 standard errors or less means that the annotator has become worse.

'errors' lists labels that a classifier trained on the other labels would give another class: review them with
'fulcrum items get', and decide them with 'fulcrum items resolve'.

Example:
  fulcrum annotators list digits
  fulcrum annotators pause digits carl --reason "answers before the image has loaded"
  fulcrum annotators errors digits --most 20
)";

struct AnnotatorOptions {
  CampaignOptions campaign = {};
  std::string annotator = {};
  std::string reason = {};
  bool confusion = false;
  int most = 50;
};

std::string NumberOrDash(bool present, double value, int digits) {
  return present ? absl::StrFormat("%.*f", digits, value) : "-";
}

std::string SummaryText(const v1::ListAnnotatorsResponse& response) {
  std::string text = absl::StrFormat("%d votes on %d examples", response.votes(), response.items());
  if (response.has_cohen_kappa()) absl::StrAppendFormat(&text, ", Cohen's kappa %.3f", response.cohen_kappa());
  if (response.has_fleiss_kappa()) absl::StrAppendFormat(&text, ", Fleiss' kappa %.3f", response.fleiss_kappa());
  if (response.has_krippendorff_alpha()) {
    absl::StrAppendFormat(&text, ", Krippendorff's alpha %.3f", response.krippendorff_alpha());
  }
  return absl::StrCat(text, "\n");
}

/// Row by row: the true class, and how often each answer is given.
std::string ConfusionText(const v1::ListAnnotatorsResponse& response) {
  std::string text;
  const int classes = response.classes_size();
  for (const v1::Annotator& annotator : response.annotators()) {
    if (annotator.confusion_size() != classes * classes) continue;
    std::vector<std::vector<std::string>> rows = {{"TRUE CLASS"}};
    for (const std::string& name : response.classes()) rows[0].push_back(PrintableLine(name));
    for (int c = 0; c < classes; ++c) {
      rows.push_back({PrintableLine(response.classes(c))});
      for (int v = 0; v < classes; ++v) {
        rows.back().push_back(absl::StrFormat("%.3f", annotator.confusion(c * classes + v)));
      }
    }
    absl::StrAppend(&text, "\n", PrintableLine(annotator.name()), "\n", TextTable(rows));
  }
  return text;
}

absl::Status ListThem(const AnnotatorOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::ListAnnotatorsResponse response,
                           CampaignCalls(connection).ListAnnotators(options.campaign.name));
  std::vector<std::vector<std::string>> rows = {
      {"ANNOTATOR", "VOTES", "ACCURACY", "INTERVAL", "GOLD", "KAPPA", "DRIFT", "SECONDS", "SKIPS", "STATE"}};
  for (const v1::Annotator& annotator : response.annotators()) {
    const std::string paused = PrintableLine(annotator.paused_reason());
    rows.push_back({PrintableLine(annotator.name()), absl::StrCat(annotator.votes()),
                    NumberOrDash(annotator.has_accuracy(), annotator.accuracy(), 3),
                    absl::StrFormat("%.2f-%.2f", annotator.accuracy_low(), annotator.accuracy_high()),
                    absl::StrCat(annotator.gold_right(), "/", annotator.gold_votes()),
                    NumberOrDash(annotator.has_kappa(), annotator.kappa(), 2),
                    NumberOrDash(annotator.has_drift_z(), annotator.drift_z(), 1),
                    NumberOrDash(annotator.has_answer_seconds(), annotator.answer_seconds(), 1),
                    absl::StrFormat("%.0f%%", 100 * annotator.skip_rate()),
                    paused.empty() ? "active" : absl::StrCat("paused: ", paused)});
  }
  std::string text = absl::StrCat(TextTable(rows), SummaryText(response));
  if (options.confusion) absl::StrAppend(&text, ConfusionText(response));
  return PrintAnswer(options.campaign, text, response);
}

absl::Status PauseOne(const AnnotatorOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_RETURN_IF_ERROR(
      CampaignCalls(connection).PauseAnnotator(options.campaign.name, options.annotator, options.reason));
  return PrintAnswer(options.campaign, absl::StrCat("paused ", PrintableLine(options.annotator), "\n"),
                     v1::PauseAnnotatorResponse());
}

absl::Status ResumeOne(const AnnotatorOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_RETURN_IF_ERROR(
      CampaignCalls(connection).ResumeAnnotator(options.campaign.name, options.annotator, options.reason));
  return PrintAnswer(options.campaign, absl::StrCat("resumed ", PrintableLine(options.annotator), "\n"),
                     v1::ResumeAnnotatorResponse());
}

absl::Status ListErrors(const AnnotatorOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(const v1::ListLabelErrorsResponse response,
                           CampaignCalls(connection).ListLabelErrors(options.campaign.name, options.most));
  std::vector<std::vector<std::string>> rows = {{"ITEM", "LABEL", "SUGGESTED", "MARGIN"}};
  for (const v1::LabelError& error : response.errors()) {
    rows.push_back({PrintableLine(error.item_id()), PrintableLine(error.label()), PrintableLine(error.suggested()),
                    absl::StrFormat("%.3f", error.margin())});
  }
  const std::string text = absl::StrCat(TextTable(rows), response.errors_size(), " of ", response.total_size(),
                                        " likely errors among ", response.labels(), " labels\n");
  return PrintAnswer(options.campaign, text, response);
}

using AnnotatorRun = absl::Status (*)(const AnnotatorOptions&);

CommandRun AddAnnotators(CLI::App& app) {
  auto words = std::make_shared<std::vector<std::pair<CLI::App*, CommandRun>>>();
  const auto options = std::make_shared<AnnotatorOptions>();
  const auto add = [&](const char* name, const char* summary, AnnotatorRun run) {
    CLI::App* sub = app.add_subcommand(name, summary);
    AddCampaignName(*sub, options->campaign);
    words->emplace_back(sub, [options, run] { return run(*options); });
    return sub;
  };
  const auto add_annotator = [&](CLI::App* sub) {
    sub->add_option("annotator", options->annotator, "Name of the annotator")->type_name("")->required();
    sub->add_option("--reason", options->reason, "Why; stored with the decision")->type_name("TEXT");
  };
  CLI::App* list = add("list", "List annotators: accuracy, agreement, speed, skips, drift", ListThem);
  list->add_flag("--confusion", options->confusion, "Also print the confusion matrix of every annotator");
  add_annotator(add("pause", "Give an annotator no more tasks", PauseOne));
  add_annotator(add("resume", "Give a paused annotator tasks again", ResumeOne));
  CLI::App* errors = add("errors", "List labels that are likely wrong, for review", ListErrors);
  errors->add_option("--most", options->most, "Labels to list at most")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  for (const auto& [sub, run] : *words) AddCampaignOptions(*sub, options->campaign);
  app.require_subcommand(1);
  app.footer(absl::StrCat(kAnnotatorsFooter, "\n", ExitCodeHelp()));
  return [words]() -> absl::Status {
    for (const auto& [sub, run] : *words) {
      if (sub->parsed()) return run();
    }
    return absl::InvalidArgumentError("name a command, such as 'fulcrum annotators list'");
  };
}

}  // namespace

Command AnnotatorsCommand() {
  return {"annotators", "Campaigns", "Show how good annotators are, pause them, and list labels to review",
          AddAnnotators};
}

}  // namespace fulcrum::pipeline
