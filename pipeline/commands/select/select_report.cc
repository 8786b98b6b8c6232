// What `fulcrum select` writes besides the batch: the JSON report and the notes.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/commands/select/select_inputs.h"
#include "pipeline/text/version.h"

namespace fulcrum::pipeline {
namespace {

using Json = nlohmann::ordered_json;

Json VersionsAsJson() {
  Json libraries = Json::object();
  for (const LibraryVersion& library : LibraryVersions()) libraries[library.name] = library.version;
  return {{"version", ProgramVersion()}, {"libraries", libraries}};
}

Json PathOrNull(const std::string& path) {
  return path.empty() ? Json(nullptr) : Json(path);
}

Json InputsAsJson(const SelectOptions& options, const SelectInputs& inputs) {
  return {{"pool", options.pool},
          {"rows", inputs.share.total},
          {"features", inputs.features->dims()},
          {"labels", options.labels},
          {"labeled", inputs.labeled},
          {"predictions", PathOrNull(options.predictions)},
          {"classes", inputs.classes.names()}};
}

/// Settings that tuning replaces are left out: they are in "tuning".
void LeaveOutTuned(const SelectOptions& options, Json& settings) {
  if (!TunesClassifier(options)) return;
  for (const char* name : {"normalize", "svm_kernel", "svm_sigma", "svm_poly_c", "svm_degree", "svm_c"}) {
    settings.erase(name);
  }
  if (options.leverage_given) return;
  for (const char* name : {"kernel", "sigma", "poly_c", "degree"}) settings.erase(name);
}

Json SettingsAsJson(const SelectOptions& options) {
  Json settings = {{"strategy", options.strategy},
                   {"batch", options.batch},
                   {"alpha", options.alpha},
                   {"leverage_scale", options.leverage_scale},
                   {"normalize", options.normalize},
                   {"kernel", options.kernel},
                   {"sigma", options.sigma},
                   {"poly_c", options.poly_c},
                   {"degree", options.degree},
                   {"normalize_kernel", options.normalize_kernel},
                   {"tau", options.tau},
                   {"engine", options.engine},
                   {"landmarks", options.landmarks},
                   {"refine", !options.no_refine},
                   {"svm_kernel", options.svm_kernel},
                   {"svm_sigma", options.svm_sigma},
                   {"svm_poly_c", options.svm_poly_c},
                   {"svm_degree", options.svm_degree},
                   {"svm_c", options.svm_c},
                   {"class_weights", options.class_weights},
                   {"seed", options.seed},
                   {"threads", options.threads},
                   {"memory", options.memory}};
  if (options.cost_budget > 0) settings["cost_budget"] = options.cost_budget;
  settings["tune"] = TunesClassifier(options) ? "auto" : "off";
  LeaveOutTuned(options, settings);
  return settings;
}

double CostOfBatch(const SelectInputs& inputs, const select::Selection& selection) {
  double cost = 0;
  for (const select::Pick& pick : selection.picks) cost += inputs.costs[pick.row];
  return cost;
}

Json BatchAsJson(const SelectOptions& options, const SelectInputs& inputs, const select::Selection& selection) {
  Json batch = {{"asked", options.batch},
                {"given", selection.picks.size()},
                {"F", nullptr},
                {"bound", nullptr},
                {"ratio", nullptr}};
  if (!inputs.costs.empty()) batch["cost"] = CostOfBatch(inputs, selection);
  if (!selection.has_certificate) return batch;
  const auto& [value, bound] = selection.certificate;
  batch["F"] = value;
  batch["bound"] = bound;
  if (bound > 0) batch["ratio"] = value / bound;
  return batch;
}

// A stage that ran several times has the sum.
Json SecondsAsJson(const std::vector<StageSeconds>& seconds) {
  Json stages = Json::object();
  for (const StageSeconds& stage : seconds) stages[stage.stage] = stages.value(stage.stage, 0.0) + stage.seconds;
  return stages;
}

std::size_t GivenFrom(const select::Selection& selection, ClassIndex index) {
  std::size_t given = 0;
  for (const select::Pick& pick : selection.picks) given += pick.class_index == index ? 1 : 0;
  return given;
}

Json ClassesAsJson(const SelectInputs& inputs, const RoundResult& result) {
  Json classes = Json::array();
  for (const ClassReport& report : result.classes) {
    const bool whole_pool = report.class_index == kUnlabeled;
    classes.push_back(
        {{"class", whole_pool ? Json(nullptr) : Json(inputs.classes.NameOf(report.class_index))},
         {"m", report.rows},
         {"labeled", report.labeled},
         {"k", report.rank},
         {"tau_reached", report.trace_share},
         {"engine", report.engine},
         {"reason", report.reason},
         {"residual", report.residual},
         {"products", report.products},
         {"warm", report.warm},
         {"degenerate_cut", report.degenerate_cut},
         {"given", whole_pool ? result.selection.picks.size() : GivenFrom(result.selection, report.class_index)},
         {"seconds", SecondsAsJson(report.seconds)}});
  }
  return classes;
}

Json ChoiceAsJson(const ClassifierChoice& choice) {
  return {{"normalize", choice.normalize},
          {"classifier", choice.classifier},
          {"kernel", kernel::DescribeKernel(choice.kernel)},
          {"c", choice.c},
          {"class_weights", choice.class_weights},
          {"log_loss", choice.log_loss},
          {"accuracy", choice.accuracy}};
}

Json TuningAsJson(const TunedSettings* tuned) {
  if (tuned == nullptr) return nullptr;
  Json tuning = ChoiceAsJson(tuned->chosen);
  tuning["leverage_kernel"] = kernel::DescribeKernel(tuned->leverage_kernel);
  tuning["labels"] = tuned->labels;
  tuning["reason"] = tuned->reason;
  tuning["runners_up"] = Json::array();
  for (const ClassifierChoice& choice : tuned->runners_up) tuning["runners_up"].push_back(ChoiceAsJson(choice));
  return tuning;
}

Json SvmAsJson(const std::optional<SvmReport>& svm) {
  if (!svm) return nullptr;
  return {{"support_vectors", svm->support_vectors},
          {"dual_objective", svm->dual_objective},
          {"iterations", svm->iterations},
          {"warm", svm->warm}};
}

void NoteEmptyGroups(const SelectInputs& inputs, const Communicator& peers, const RoundResult& result,
                     std::vector<std::string>& notes) {
  if (std::ranges::max(ShareValue(peers, result.predicted.size())) == 0) return;
  std::vector<double> candidates(inputs.classes.size(), 0);
  for (std::size_t row = 0; row < result.predicted.size(); ++row) {
    const bool is_candidate = inputs.labels[row] == kUnlabeled && result.predicted[row] != kUnlabeled;
    if (is_candidate) ++candidates[static_cast<std::size_t>(result.predicted[row])];
  }
  peers.ReduceSum(candidates);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i] > 0) continue;
    notes.push_back(absl::StrCat("no unlabeled row is predicted to be of class '", inputs.classes.names()[i],
                                 "': the batch comes from the other classes"));
  }
}

void NoteOddSpectra(const SelectInputs& inputs, const RoundResult& result, std::vector<std::string>& notes) {
  constexpr double kAllOfTheTrace = 1 - 1e-9;
  for (const ClassReport& report : result.classes) {
    const std::string who = report.class_index == kUnlabeled
                                ? "the pool"
                                : absl::StrCat("class '", inputs.classes.NameOf(report.class_index), "'");
    if (report.rows > 1 && report.rank == 1 && report.trace_share >= kAllOfTheTrace) {
      notes.push_back(absl::StrCat("the rows of ", who,
                                   " are identical to the kernel (rank one): leverage cannot distinguish them; "
                                   "check the features, the normalisation or --sigma"));
    } else if (report.degenerate_cut) {
      notes.push_back(absl::StrCat("the leverage of ", who,
                                   " is one choice of several: --tau cuts between equal eigenvalues; "
                                   "a slightly different --tau avoids it"));
    }
  }
}

}  // namespace

std::vector<std::string> CollectNotes(const SelectOptions& options, const SelectInputs& inputs,
                                      const Communicator& peers, const RoundResult& result) {
  std::vector<std::string> notes = inputs.notes;
  NoteEmptyGroups(inputs, peers, result, notes);
  NoteOddSpectra(inputs, result, notes);
  if (const std::size_t given = result.selection.picks.size(); given < options.batch && !inputs.costs.empty()) {
    notes.push_back(absl::StrCat("the batch of ", given, " rows costs ", CostOfBatch(inputs, result.selection),
                                 " of the ", options.cost_budget, " that --cost-budget allows"));
  } else if (given < options.batch) {
    notes.push_back(absl::StrCat("--batch asks for ", options.batch, " rows, but only ", given, " could be given: ",
                                 inputs.unlabeled(), " of the pool's ", inputs.share.total, " rows are unlabeled"));
  }
  return notes;
}

std::string ReportText(const SelectOptions& options, const SelectInputs& inputs, const RoundResult& result,
                       const std::vector<std::string>& notes, const StageClock& clock) {
  Json seconds = SecondsAsJson(clock.seconds());
  seconds["total"] = clock.TotalSeconds();
  const Json report = {{"fulcrum", VersionsAsJson()},
                       {"inputs", InputsAsJson(options, inputs)},
                       {"settings", SettingsAsJson(options)},
                       {"batch", BatchAsJson(options, inputs, result.selection)},
                       {"classes", ClassesAsJson(inputs, result)},
                       {"svm", SvmAsJson(result.svm)},
                       {"tuning", TuningAsJson(inputs.tuned.get())},
                       {"seconds", seconds},
                       {"notes", notes}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace fulcrum::pipeline
