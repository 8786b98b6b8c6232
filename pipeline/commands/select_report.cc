#include "pipeline/commands/select_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "pipeline/version.h"

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
          {"rows", inputs.labels.size()},
          {"features", inputs.features->dims()},
          {"labels", options.labels},
          {"labeled", inputs.labeled},
          {"predictions", PathOrNull(options.predictions)},
          {"classes", inputs.classes.names()}};
}

Json SettingsAsJson(const SelectOptions& options) {
  return {{"strategy", options.strategy},
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
}

Json BatchAsJson(const SelectOptions& options, const select::Selection& selection) {
  Json batch = {{"asked", options.batch},
                {"given", selection.picks.size()},
                {"F", nullptr},
                {"bound", nullptr},
                {"ratio", nullptr}};
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

Json SvmAsJson(const std::optional<SvmReport>& svm) {
  if (!svm) return nullptr;
  return {{"support_vectors", svm->support_vectors},
          {"dual_objective", svm->dual_objective},
          {"iterations", svm->iterations},
          {"warm", svm->warm}};
}

void NoteEmptyGroups(const SelectInputs& inputs, const RoundResult& result, std::vector<std::string>& notes) {
  if (result.predicted.empty()) return;
  std::vector<std::size_t> candidates(inputs.classes.size(), 0);
  for (std::size_t row = 0; row < inputs.labels.size(); ++row) {
    const bool is_candidate = inputs.labels[row] == kUnlabeled && result.predicted[row] != kUnlabeled;
    if (is_candidate) ++candidates[static_cast<std::size_t>(result.predicted[row])];
  }
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
                                   " are identical to the kernel (rank one): leverage cannot tell them apart; "
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
                                      const RoundResult& result) {
  std::vector<std::string> notes = inputs.notes;
  NoteEmptyGroups(inputs, result, notes);
  NoteOddSpectra(inputs, result, notes);
  if (const std::size_t given = result.selection.picks.size(); given < options.batch) {
    notes.push_back(absl::StrCat("--batch asks for ", options.batch, " rows, but only ", given, " could be given: ",
                                 inputs.unlabeled(), " of the pool's ", inputs.labels.size(), " rows are unlabeled"));
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
                       {"batch", BatchAsJson(options, result.selection)},
                       {"classes", ClassesAsJson(inputs, result)},
                       {"svm", SvmAsJson(result.svm)},
                       {"seconds", seconds},
                       {"notes", notes}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace fulcrum::pipeline
