// `fulcrum select`: one round from files to files, for people and for scheduled jobs.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/cluster/cluster_round.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/commands/select/select_inputs.h"
#include "pipeline/commands/select/select_stream.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/progress.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"
#include "pipeline/text/text_sink.h"
#include "pipeline/text/version.h"
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

absl::StatusOr<RoundSpec> SpecFor(const SelectOptions& options, const SelectInputs& inputs, const Communicator& peers) {
  FULCRUM_ASSIGN_OR_RETURN(RoundSpec spec, MakeRoundSpec(options));
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t memory, MemoryOf(options));
  FULCRUM_ASSIGN_OR_RETURN(spec.memory_bytes, MemoryForEngines(memory, *inputs.features, inputs.labeled));
  // Engines are chosen by it, which must not depend on the number of processes.
  if (!peers.is_alone()) spec.memory_bytes = memory / 2;
  if (inputs.tuned != nullptr) {
    UseChoice(inputs.tuned->chosen, inputs.classes.size(), spec.svm);
    if (!options.leverage_given) spec.leverage_kernel = inputs.tuned->leverage_kernel;
    spec.tuning = inputs.tuned;
  }
  return spec;
}

absl::Status UseClassWeights(const SelectOptions& options, const SelectInputs& inputs, const Communicator& peers,
                             RoundSpec& spec) {
  if (options.class_weights.empty()) return absl::OkStatus();
  std::vector<ClassIndex> labels = inputs.labels;
  std::erase(labels, kUnlabeled);
  auto weights = ParseClassWeights(options.class_weights, inputs.classes, ShareValues(peers, std::move(labels)));
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, weights.status()));
  spec.svm.class_weights = *std::move(weights);
  return absl::OkStatus();
}

absl::StatusOr<RoundResult> RunRound(const SelectOptions& options, const SelectInputs& inputs,
                                     const Communicator& peers, Progress& progress) {
  absl::StatusOr<RoundSpec> spec = SpecFor(options, inputs, peers);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, spec.status()));
  FULCRUM_RETURN_IF_ERROR(UseClassWeights(options, inputs, peers, *spec));
  RoundInput input;
  input.class_count = inputs.classes.size();
  input.labels = inputs.labels;
  if (inputs.predictions) input.predictions = *inputs.predictions;
  if (!inputs.probabilities.empty()) input.given_probabilities = inputs.probabilities;
  // Which labels were asked for and which were there from the start is not in the files; schedules need no more.
  input.queries_so_far = inputs.labeled;
  input.costs = inputs.costs;
  input.confidence = !options.scores.empty();
  const auto report = [&](std::string_view stage, std::size_t done, std::size_t total) {
    progress.Update(stage, done, total);
  };
  if (!peers.is_alone()) return RunClusterRound(*spec, {peers, *inputs.features, inputs.share}, input, report);
  return RoundRunner(*std::move(spec), *inputs.features).Run(input, report);
}

/// Stages say what is wrong; the command names the options that help.
absl::Status WithAdvice(const absl::Status& status, const SelectOptions& options) {
  if (!absl::IsResourceExhausted(status)) return status;
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t memory, MemoryOf(options));
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), "\n  what to do: --memory is ", memory >> 20,
                                                   " MiB; raise it, lower --tau, or use --engine auto or landmark"));
}

absl::StatusOr<std::string> BytesFor(const NamedPath& output, const SelectOptions& options, const SelectInputs& inputs,
                                     const Communicator& peers, const RoundResult& result,
                                     const std::vector<std::string>& notes, const StageClock& clock) {
  const bool scores = output.option == "--scores";
  if (scores && !peers.is_alone()) {
    // The table of the root has the header.
    std::string text = ScoresTable(inputs, result);
    if (!peers.is_root()) text.erase(0, text.find('\n') + 1);
    return absl::StrJoin(peers.Gather(std::move(text)), "");
  }
  if (!peers.is_root()) return std::string();
  if (output.option == "--report") return ReportText(options, inputs, result, notes, clock);
  if (const auto format = TypedFormatOf(output.path)) {
    return scores ? ScoresBytes(inputs, result, *format) : BatchBytes(inputs, result, *format);
  }
  return scores ? ScoresTable(inputs, result) : BatchTable(inputs, result);
}

/// Complete or not at all.
absl::Status WriteFiles(const std::vector<NamedPath>& outputs, const std::vector<std::string>& contents) {
  std::vector<std::unique_ptr<TextSink>> sinks;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    FULCRUM_ASSIGN_OR_RETURN(std::unique_ptr<TextSink> sink, OpenTextSink(outputs[i].path));
    FULCRUM_RETURN_IF_ERROR(sink->Write(contents[i]));
    FULCRUM_RETURN_IF_ERROR(sink->Finish());
    sinks.push_back(std::move(sink));
  }
  for (const std::unique_ptr<TextSink>& sink : sinks) FULCRUM_RETURN_IF_ERROR(sink->Commit());
  return absl::OkStatus();
}

/// The root alone writes, once it has everything from the others: they do not wait for a root that cannot.
absl::Status WriteOutputs(const SelectOptions& options, const SelectInputs& inputs, const Communicator& peers,
                          const RoundResult& result, const std::vector<std::string>& notes, const StageClock& clock) {
  const std::vector<NamedPath> outputs = OutputPaths(options);
  std::vector<std::string> contents;
  absl::Status made;
  for (const NamedPath& output : outputs) {
    absl::StatusOr<std::string> bytes = BytesFor(output, options, inputs, peers, result, notes, clock);
    if (made.ok()) made = bytes.status();
    contents.push_back(bytes.ok() ? *std::move(bytes) : std::string());
  }
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, made));
  return AgreeOn(peers, peers.is_root() ? WriteFiles(outputs, contents) : absl::OkStatus());
}

absl::Status SelectWith(const SelectOptions& given, const Communicator& peers) {
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, peers.is_root() ? CheckOutputs(given) : absl::OkStatus()));
  FULCRUM_ASSIGN_OR_RETURN(const SelectOptions options, AgreeOnMemory(given, peers));
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(options.threads));
  StageClock clock;
  Progress progress("fulcrum select", ChooseProgressStyle(options.quiet || !peers.is_root(), options.verbose));
  FULCRUM_ASSIGN_OR_RETURN(const SelectInputs inputs, LoadSelectInputs(options, peers, progress, clock));
  if (options.stream.on) {
    progress.Clear();
    FULCRUM_ASSIGN_OR_RETURN(RoundSpec spec, SpecFor(options, inputs, peers));
    FULCRUM_ASSIGN_OR_RETURN(spec.svm.class_weights,
                             ParseClassWeights(options.class_weights, inputs.classes, inputs.labels));
    return SelectFromStream(options, inputs, spec);
  }
  const absl::StatusOr<RoundResult> round = RunRound(options, inputs, peers, progress);
  if (!round.ok()) return WithAdvice(round.status(), options);
  const RoundResult& result = *round;
  clock.Add(result.seconds);
  progress.Clear();
  const std::vector<std::string> notes = CollectNotes(options, inputs, peers, result);
  FULCRUM_RETURN_IF_ERROR(WriteOutputs(options, inputs, peers, result, notes, clock));
  for (const std::string& note : notes) {
    if (!options.quiet && peers.is_root()) std::fprintf(stderr, "fulcrum select: note: %s\n", note.c_str());
  }
  if (options.verbose && !peers.is_alone()) {
    std::fprintf(stderr, "fulcrum select: rank %d on %s sent %llu bytes\n", peers.rank(), peers.host().c_str(),
                 static_cast<unsigned long long>(peers.bytes_sent()));
  }
  return absl::OkStatus();
}

absl::Status Select(const SelectOptions& options) {
  if (options.strategy == "list") {
    std::fputs(ListStrategies().c_str(), stdout);
    return absl::OkStatus();
  }
  FULCRUM_RETURN_IF_ERROR(ValidateSelectOptions(options));
  FULCRUM_RETURN_IF_ERROR(ValidateStreamOptions(options));
  if (options.stream.on && LaunchedProcesses() > 1) {
    return absl::InvalidArgumentError("--stream runs in one process; start it without mpirun");
  }
  if (LaunchedProcesses() > 1 && !options.scores.empty() && TypedFormatOf(options.scores)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--scores is ", options.scores, "; several processes write it as CSV: name a file such as scores.csv"));
  }
  return RunInProcesses("fulcrum select", ExitCodeFor,
                        [&](const Communicator& peers) { return SelectWith(options, peers); });
}

CommandRun AddSelect(CLI::App& app) {
  auto options = std::make_shared<SelectOptions>();
  AddSelectOptions(app, *options);
  return [options, &app] {
    const auto given = [&app](std::initializer_list<const char*> names) {
      return std::any_of(names.begin(), names.end(), [&](const char* name) { return app.count(name) > 0; });
    };
    options->classifier_given = given(
        {"--normalize", "--svm-kernel", "--svm-sigma", "--svm-poly-c", "--svm-degree", "--svm-c", "--class-weights"});
    options->stream.given = given({"--budget", "--state", "--novelty", "--drift-window", "--drift-rate"});
    options->leverage_given = given({"--kernel", "--sigma", "--poly-c", "--degree", "--normalize-kernel"});
    if (options->strategy.empty()) options->strategy = DefaultStrategy(*options);
    return Select(*options);
  };
}

}  // namespace

Command SelectCommand() {
  return {"select", "One-shot jobs", "Choose the rows of a pool to label next", AddSelect,
          Command::Processes::kDivideTheWork};
}

}  // namespace fulcrum::pipeline
