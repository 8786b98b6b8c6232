// `fulcrum select`: one round from files to files, for people and for scheduled jobs.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_registry.h"
#include "pipeline/commands/select_arrow_tables.h"
#include "pipeline/commands/select_inputs.h"
#include "pipeline/commands/select_options.h"
#include "pipeline/commands/select_report.h"
#include "pipeline/commands/select_tables.h"
#include "pipeline/commands/stage_clock.h"
#include "pipeline/memory_budget.h"
#include "pipeline/progress.h"
#include "pipeline/round.h"
#include "pipeline/text_sink.h"
#include "stages/core/status_macros.h"
#include "tbb/global_control.h"

namespace fulcrum::pipeline {
namespace {

struct NamedPath {
  std::string option;
  std::string path;
};

// Standard output last: what goes there cannot be taken back.
std::vector<NamedPath> OutputPaths(const SelectOptions& options) {
  std::vector<NamedPath> paths;
  const NamedPath all[] = {{"--scores", options.scores}, {"--report", options.report}, {"--out", options.out}};
  for (bool standard_output : {false, true}) {
    for (const NamedPath& output : all) {
      if (!output.path.empty() && (output.path == "-") == standard_output) paths.push_back(output);
    }
  }
  return paths;
}

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code absent;
  return a == b || std::filesystem::equivalent(a, b, absent);
}

// Better to learn of a folder that is not there before the work than after it.
absl::Status CheckOutputs(const SelectOptions& options) {
  const NamedPath inputs[] = {
      {"--pool", options.pool}, {"--labels", options.labels}, {"--predictions", options.predictions}};
  std::vector<NamedPath> taken(std::begin(inputs), std::end(inputs));
  for (const NamedPath& output : OutputPaths(options)) {
    for (const NamedPath& other : taken) {
      if (output.path == "/dev/null" || !IsSameFile(output.path, other.path)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(output.option, " and ", other.option, " are the same file '", output.path, "'; name another"));
    }
    taken.push_back(output);
    if (const absl::Status status = OpenTextSink(output.path).status(); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(output.option, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RoundResult> RunRound(const SelectOptions& options, const SelectInputs& inputs, Progress& progress) {
  FULCRUM_ASSIGN_OR_RETURN(RoundSpec spec, MakeRoundSpec(options));
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t memory, MemoryOf(options));
  FULCRUM_ASSIGN_OR_RETURN(spec.memory_bytes, MemoryForEngines(memory, *inputs.features, inputs.labeled));
  FULCRUM_ASSIGN_OR_RETURN(spec.svm.class_weights,
                           ParseClassWeights(options.class_weights, inputs.classes, inputs.labels));
  RoundInput input;
  input.class_count = inputs.classes.size();
  input.labels = inputs.labels;
  if (inputs.predictions) input.predictions = *inputs.predictions;
  // Which labels were asked for and which were there from the start is not in the files; schedules need no more.
  input.queries_so_far = inputs.labeled;
  RoundRunner runner(std::move(spec), *inputs.features);
  return runner.Run(
      input, [&](std::string_view stage, std::size_t done, std::size_t total) { progress.Update(stage, done, total); });
}

absl::StatusOr<std::string> BytesFor(const NamedPath& output, const SelectOptions& options, const SelectInputs& inputs,
                                     const RoundResult& result, const std::vector<std::string>& notes,
                                     const StageClock& clock) {
  if (output.option == "--report") return ReportText(options, inputs, result, notes, clock);
  const bool scores = output.option == "--scores";
  if (const auto format = TypedFormatOf(output.path)) {
    return scores ? ScoresBytes(inputs, result, *format) : BatchBytes(inputs, result, *format);
  }
  return scores ? ScoresTable(inputs, result) : BatchTable(inputs, result);
}

absl::Status WriteOutputs(const SelectOptions& options, const SelectInputs& inputs, const RoundResult& result,
                          const std::vector<std::string>& notes, const StageClock& clock) {
  std::vector<std::unique_ptr<TextSink>> sinks;
  for (const NamedPath& output : OutputPaths(options)) {
    FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<TextSink> sink, OpenTextSink(output.path));
    FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, BytesFor(output, options, inputs, result, notes, clock));
    FULCRUM_RETURN_IF_ERROR(sink->Write(bytes));
    FULCRUM_RETURN_IF_ERROR(sink->Finish());
    sinks.push_back(std::move(sink));
  }
  for (const std::unique_ptr<TextSink>& sink : sinks) FULCRUM_RETURN_IF_ERROR(sink->Commit());
  return absl::OkStatus();
}

absl::Status Select(const SelectOptions& options) {
  if (options.strategy == "list") {
    std::fputs(ListStrategies().c_str(), stdout);
    return absl::OkStatus();
  }
  FULCRUM_RETURN_IF_ERROR(ValidateSelectOptions(options));
  FULCRUM_RETURN_IF_ERROR(CheckOutputs(options));
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(options.threads));
  StageClock clock;
  Progress progress("fulcrum select", ChooseProgressStyle(options.quiet, options.verbose));
  FULCRUM_ASSIGN_OR_RETURN(const SelectInputs inputs, LoadSelectInputs(options, progress, clock));
  FULCRUM_ASSIGN_OR_RETURN(const RoundResult result, RunRound(options, inputs, progress));
  clock.Add(result.seconds);
  progress.Clear();
  const std::vector<std::string> notes = CollectNotes(options, inputs, result);
  FULCRUM_RETURN_IF_ERROR(WriteOutputs(options, inputs, result, notes, clock));
  for (const std::string& note : notes) {
    if (!options.quiet) std::fprintf(stderr, "fulcrum select: note: %s\n", note.c_str());
  }
  return absl::OkStatus();
}

CommandRun AddSelect(CLI::App& app) {
  auto options = std::make_shared<SelectOptions>();
  AddSelectOptions(app, *options);
  return [options] {
    if (options->strategy.empty()) options->strategy = DefaultStrategy(*options);
    return Select(*options);
  };
}

}  // namespace

Command SelectCommand() {
  return {"select", "One-shot jobs", "Choose the rows of a pool to label next", AddSelect};
}

}  // namespace fulcrum::pipeline
