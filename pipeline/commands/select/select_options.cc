#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/commands/select/select_inputs.h"
#include "pipeline/round/memory_budget.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/normalize.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/strategy.h"
#include "tbb/info.h"

namespace fulcrum::pipeline {
namespace {

constexpr int kMostThreads = 4096;

absl::Status OutOfRange(absl::string_view option, double value, absl::string_view range) {
  return absl::InvalidArgumentError(absl::StrFormat("%s is %g; it must be %s", option, value, range));
}

absl::Status NamedAfter(absl::string_view option, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(option, ": ", status.message()));
}

// The kernel's own check names parameters; users know the options.
absl::Status CheckKernelNumbers(absl::string_view prefix, double sigma, double offset, int degree) {
  if (!(sigma > 0 && std::isfinite(sigma))) return OutOfRange(absl::StrCat(prefix, "sigma"), sigma, "above 0");
  if (!(offset >= 0 && std::isfinite(offset))) return OutOfRange(absl::StrCat(prefix, "poly-c"), offset, "at least 0");
  if (degree < 1) return OutOfRange(absl::StrCat(prefix, "degree"), degree, "at least 1");
  return absl::OkStatus();
}

absl::Status CheckNumbers(const SelectOptions& options) {
  if (options.batch < 1) return OutOfRange("--batch", static_cast<double>(options.batch), "at least 1");
  if (!(options.cost_budget >= 0 && std::isfinite(options.cost_budget))) {
    return OutOfRange("--cost-budget", options.cost_budget, "at least 0");
  }
  if (!(options.tau > 0 && options.tau <= 1)) return OutOfRange("--tau", options.tau, "above 0 and at most 1");
  if (!(options.alpha >= 0 && options.alpha <= 1)) return OutOfRange("--alpha", options.alpha, "between 0 and 1");
  if (!(options.svm_c > 0 && std::isfinite(options.svm_c))) return OutOfRange("--svm-c", options.svm_c, "above 0");
  if (options.threads < 1 || options.threads > kMostThreads) {
    return OutOfRange("--threads", options.threads, absl::StrCat("between 1 and ", kMostThreads));
  }
  FULCRUM_RETURN_IF_ERROR(CheckKernelNumbers("--", options.sigma, options.poly_c, options.degree));
  return CheckKernelNumbers("--svm-", options.svm_sigma, options.svm_poly_c, options.svm_degree);
}

absl::Status CheckTuning(const SelectOptions& options) {
  if (!options.tune.empty() && options.tune != "auto" && options.tune != "off") {
    return absl::InvalidArgumentError(absl::StrCat("--tune is '", options.tune, "'; it must be auto or off"));
  }
  if (options.tune == "auto" && options.classifier_given) {
    return absl::InvalidArgumentError(
        "--tune auto chooses the settings of the classifier; leave --normalize, --svm-... and --class-weights out");
  }
  if (options.tune == "auto" && !options.predictions.empty()) {
    return absl::InvalidArgumentError("--tune auto and --predictions exclude each other: no classifier is trained");
  }
  return absl::OkStatus();
}

absl::Status CheckFilesAreNamed(const SelectOptions& options) {
  if (options.pool.empty()) return absl::InvalidArgumentError("--pool is missing; name the file with the examples");
  if (options.labels.empty()) {
    return absl::InvalidArgumentError("--labels is missing; name the file with the labels so far (id,label)");
  }
  if (options.quiet && options.verbose) return absl::InvalidArgumentError("--quiet and --verbose exclude each other");
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<T> FromOption(absl::string_view option, absl::StatusOr<T> value) {
  if (!value.ok()) return NamedAfter(option, value.status());
  return value;
}

// A class without labels keeps the weight 1.
std::vector<double> BalancedWeights(std::size_t classes, std::span<const ClassIndex> labels) {
  std::vector<double> counts(classes, 0.0);
  double labeled = 0;
  for (ClassIndex label : labels) {
    if (label == kUnlabeled) continue;
    ++counts[static_cast<std::size_t>(label)];
    ++labeled;
  }
  std::vector<double> weights(classes, 1.0);
  for (std::size_t i = 0; i < classes; ++i) {
    if (counts[i] > 0) weights[i] = labeled / (static_cast<double>(classes) * counts[i]);
  }
  return weights;
}

}  // namespace

std::string DefaultStrategy(const SelectOptions& options) {
  return options.predictions.empty() ? select::kDefaultStrategy : "dbalevs";
}

bool TunesClassifier(const SelectOptions& options) {
  return options.predictions.empty() && options.tune != "off" && !options.classifier_given;
}

absl::Status ValidateSelectOptions(const SelectOptions& options) {
  FULCRUM_RETURN_IF_ERROR(CheckFilesAreNamed(options));
  FULCRUM_RETURN_IF_ERROR(CheckNumbers(options));
  FULCRUM_RETURN_IF_ERROR(CheckTuning(options));
  FULCRUM_RETURN_IF_ERROR(FromOption("--normalize", ingest::ParseNormalization(options.normalize)).status());
  FULCRUM_RETURN_IF_ERROR(FromOption("--strategy", select::MakeStrategy(options.strategy)).status());
  FULCRUM_RETURN_IF_ERROR(FromOption("--engine", leverage::FindEngine(options.engine)).status());
  FULCRUM_RETURN_IF_ERROR(MemoryOf(options).status());
  FULCRUM_ASSIGN_OR_RETURN(const RoundSpec spec, MakeRoundSpec(options));
  return ValidateRoundSpec(spec);
}

absl::StatusOr<std::size_t> MemoryOf(const SelectOptions& options) {
  if (options.memory.empty()) return UsableMemoryBytes();
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t bytes, FromOption("--memory", ParseByteSize(options.memory)));
  return static_cast<std::size_t>(bytes);
}

absl::StatusOr<std::size_t> MemoryHere(const SelectOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t memory, MemoryOf(options));
  return memory / static_cast<std::size_t>(options.processes_here);
}

absl::StatusOr<RoundSpec> MakeRoundSpec(const SelectOptions& options) {
  RoundSpec spec;
  spec.strategy = options.strategy;
  spec.batch = options.batch;
  spec.cost_budget = options.cost_budget;
  spec.tau = options.tau;
  spec.alpha = options.alpha;
  spec.engine = options.engine;
  spec.landmarks = options.landmarks;
  spec.refine_landmarks = !options.no_refine;
  spec.seed = options.seed;
  FULCRUM_ASSIGN_OR_RETURN(spec.leverage_scale,
                           FromOption("--leverage-scale", select::ParseLeverageScale(options.leverage_scale)));
  FULCRUM_ASSIGN_OR_RETURN(spec.leverage_kernel.type, FromOption("--kernel", kernel::ParseKernelType(options.kernel)));
  spec.leverage_kernel.sigma = options.sigma;
  spec.leverage_kernel.offset = options.poly_c;
  spec.leverage_kernel.degree = options.degree;
  spec.leverage_kernel.normalize = options.normalize_kernel;
  FULCRUM_ASSIGN_OR_RETURN(spec.svm.kernel.type,
                           FromOption("--svm-kernel", kernel::ParseKernelType(options.svm_kernel)));
  spec.svm.kernel.sigma = options.svm_sigma;
  spec.svm.kernel.offset = options.svm_poly_c;
  spec.svm.kernel.degree = options.svm_degree;
  spec.svm.c = options.svm_c;
  spec.svm.seed = options.seed;
  return spec;
}

absl::StatusOr<std::vector<double>> ParseClassWeights(const std::string& text, const ingest::ClassNames& classes,
                                                      std::span<const ClassIndex> labels) {
  if (text.empty()) return std::vector<double>();
  if (text == "balanced") return BalancedWeights(classes.size(), labels);
  std::vector<double> weights(classes.size(), 1.0);
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> name_and_factor = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto& [name, factor_text] = name_and_factor;
    const ClassIndex index = classes.Find(name);
    if (index == kUnlabeled) {
      return absl::InvalidArgumentError(absl::StrCat("--class-weights: there is no class '", name,
                                                     "'; the classes are ", absl::StrJoin(classes.names(), ", ")));
    }
    const double factor = ParseNumber(factor_text).value_or(0);
    if (!(factor > 0 && std::isfinite(factor))) {
      return absl::InvalidArgumentError(
          absl::StrCat("--class-weights: '", part, "' must be a class, '=' and a number above 0"));
    }
    weights[static_cast<std::size_t>(index)] = factor;
  }
  return weights;
}

std::string ListStrategies() {
  std::string text;
  for (const select::StrategyEntry& entry : select::Strategies()) {
    absl::StrAppendFormat(&text, "%-15s %s\n%15s use it: %s\n", entry.name, entry.summary, "", entry.when_to_use);
  }
  return text;
}

// The options of `fulcrum select`.

namespace {

constexpr char kSelectFooter[] =
    R"(Input files (.csv, .parquet, .arrow and other Arrow IPC, .svm; text also with .gz or .zst):
  POOL         'id' (optional, otherwise row numbers from 0), 'label' (optional, not used
               here), all other columns are features: finite numbers, lists of them, or sparse pairs. One file,
               a folder, a glob in quotes, or the folder of an imported pool
  LABELS       id,label: the labels so far, at least one row for each of two classes
  PREDICTIONS  of a model of your own, for every unlabeled row: id and one column per class, named after it, with
               its probability; or id,label, the class alone, which is enough for dbalevs, alevs and hybrid

Output files (CSV, also .csv.gz or .csv.zst, or .parquet, .arrow, .arrows; written
completely or not at all):
  --out        rank,id,class,leverage,gain: the rows to label, best first. 'class' is the predicted one,
               'gain' is what the strategy ranked by.
  --scores     id,class,labeled,leverage,probability: every row of the pool in its order; 'labeled' is 1 or
               0, the leverage is not scaled, and that of a class sums to its rank k; 'probability' is that of
               the predicted class, calibrated on held-out labels, and empty for labeled rows
  --report     JSON:
    fulcrum    version; libraries
    inputs     pool, rows, features, labels, labeled, predictions, classes
    settings   every option that shapes the result
    batch      asked, given; F (the set value of the batch), bound (no batch of this size can have a larger
               F), ratio (F / bound); these three are null for strategies without a set value
    classes    for each class: m (rows), labeled, k (rank), tau_reached, engine, reason, residual, products,
               warm, degenerate_cut, given, seconds by stage
    svm        support_vectors, dual_objective, iterations; null if predictions were given
    tuning     what was chosen: normalize, classifier, kernel, c, class_weights (factors of c in the order of the
               classes; empty: all 1), its log_loss and accuracy on held-out labels,
               runners_up, reason, leverage_kernel; null if it was not tuned
    seconds    by stage, and total; stages of different classes overlap
    notes      what you should know: constant columns, classes without labels, a batch smaller than asked

With --stream there is no batch. Standard input has the column 'id' and those of the pool's features, in any order;
standard output gets id,score,threshold,decision, where the decision is label or skip. The budget holds at any
moment to half a percent or one label. With --state a row that comes again with the same id gets the same answer,
also after a kill; the state continues if the pool or the labels have grown.

Leverage scale: in a class with many rows the unscaled leverage (about k/m) is negligible compared with
diversity; mean or max give it weight.

Example:
  fulcrum select --pool pool.csv.gz --labels labels.csv --batch 20 --out batch.csv --report report.json
  tail -f -n +1 rows.csv | fulcrum select --stream --pool pool.csv --labels labels.csv --budget 1% --state stream.state
)";

void AddInputs(CLI::App& app, SelectOptions& options) {
  const char* group = "Input";
  app.add_option("--pool", options.pool, "All examples, labeled and not: a file, a folder, a glob, an imported pool")
      ->type_name("PATH")
      ->group(group);
  app.add_option("--labels", options.labels, "Labels so far (id,label)")->type_name("FILE")->group(group);
  app.add_option("--predictions", options.predictions,
                 "Probabilities (a column per class) or classes (id,label) from your own model")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--normalize", options.normalize,
                 "zscore, robust, unit, tfidf, several joined by commas in their order, or none; switches tuning off")
      ->capture_default_str()
      ->type_name("STEPS")
      ->group(group);
}

void AddSelection(CLI::App& app, SelectOptions& options) {
  const char* group = "Selection";
  app.add_option("--strategy", options.strategy, "How to select; 'list' shows all strategies and when to use each")
      ->default_str(std::string(select::kDefaultStrategy) + "; dbalevs with --predictions")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--batch", options.batch, "How many rows to select, at least 1")
      ->check(WholeNumber())
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  app.add_option("--cost-budget", options.cost_budget,
                 "What the batch may cost; costs are in the column that --cost names. Selects the most valuable rows "
                 "that fit, --batch at most")
      ->type_name("NUMBER")
      ->group(group);
  app.add_option("--alpha", options.alpha, "dbalevs: weight of diversity, 0 to 1")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
  app.add_option("--leverage-scale", options.leverage_scale,
                 "dbalevs: none (as published), mean (times m/k), max (largest is 1)")
      ->capture_default_str()
      ->type_name("SCALE")
      ->group(group);
}

std::string EngineHelp() {
  std::string text = "Engines:\n";
  for (const leverage::Engine& engine : leverage::Engines()) {
    absl::StrAppendFormat(&text, "  %-11s  %s\n", engine.name, engine.summary);
  }
  return text;
}

void AddLeverage(CLI::App& app, SelectOptions& options) {
  const char* group = "Leverage";
  app.add_option("--kernel", options.kernel, "rbf exp(-|x-z|^2/sigma^2), linear, poly (x.z+c)^degree, or cosine")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(group);
  app.add_option("--sigma", options.sigma, "rbf: width, above 0")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
  app.add_option("--poly-c", options.poly_c, "poly: c")->capture_default_str()->type_name("NUMBER")->group(group);
  app.add_option("--degree", options.degree, "poly: degree")->capture_default_str()->type_name("N")->group(group);
  app.add_flag("--normalize-kernel", options.normalize_kernel,
               "Divide K(i,j) by sqrt(K(i,i) K(j,j)): dbalevs needs a kernel in [0, 1]")
      ->group(group);
  app.add_option("--tau", options.tau, "Share of the kernel's trace that the rank k must reach, above 0 and at most 1")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
  app.add_option("--engine", options.engine, "How to find the eigenvectors, see below")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(group);
  app.add_option("--landmarks", options.landmarks, "landmark: landmarks per class; 0 chooses by size and memory")
      ->check(WholeNumber())
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  app.add_flag("--no-refine", options.no_refine,
               "landmark: do not refine scores with the whole kernel of a class; faster, less exact")
      ->group(group);
}

void AddClassifier(CLI::App& app, SelectOptions& options) {
  const char* group = "Classifier";
  app.add_option("--tune", options.tune,
                 "auto: choose normalisation, kernel, width and C by cross-validation on the labels; off: use the "
                 "options --normalize, --svm-... and --class-weights, which switch it off as well")
      ->default_str("auto")
      ->type_name("MODE")
      ->group(group);
  app.add_option("--svm-kernel", options.svm_kernel, "Like --kernel")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(group);
  app.add_option("--svm-sigma", options.svm_sigma, "rbf: width")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
  app.add_option("--svm-poly-c", options.svm_poly_c, "poly: c")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
  app.add_option("--svm-degree", options.svm_degree, "poly: degree")
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  app.add_option("--svm-c", options.svm_c, "C, above 0")->capture_default_str()->type_name("NUMBER")->group(group);
  app.add_option("--class-weights", options.class_weights,
                 "Factors of C by class, such as 'spam=5,ham=1', or 'balanced'")
      ->type_name("LIST")
      ->group(group);
}

void AddOutputs(CLI::App& app, SelectOptions& options) {
  const char* group = "Output";
  app.add_option("--out", options.out, "The batch; - is standard output")
      ->capture_default_str()
      ->type_name("FILE")
      ->group(group);
  app.add_option("--scores", options.scores, "The predicted class of every row, its probability, and the leverage")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--report", options.report, "A report on the run, as JSON")->type_name("FILE")->group(group);
  app.add_flag("--quiet", options.quiet, "Print errors only")->group(group);
  app.add_flag("--verbose", options.verbose, "Print a line for each stage")->group(group);
}

void AddStream(CLI::App& app, SelectOptions::Stream& stream) {
  const char* group = "Stream";
  app.add_flag(
         "--stream", stream.on,
         "Read rows from standard input (CSV; the first line names the columns) and answer each at once, see below")
      ->group(group);
  app.add_option("--budget", stream.budget, "What may be labeled: a share of the rows, or labels per /s, /m, /h or /d")
      ->capture_default_str()
      ->type_name("BUDGET")
      ->group(group);
  app.add_option("--state", stream.state,
                 "Make every decision durable in this file before it is printed, and continue from it")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--novelty", stream.novelty, "Weight of rows that are unlike the pool, 0 or more")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
  app.add_option("--drift-window", stream.drift_window, "Rows that are compared with the pool at a time")
      ->check(WholeNumber())
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  app.add_option("--drift-rate", stream.drift_rate, "Share of windows that raise a false alarm, 0.0001 to 0.5")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
}

void AddRunning(CLI::App& app, SelectOptions& options) {
  const char* group = "Running";
  options.threads = std::max(1, tbb::info::default_concurrency());
  app.add_option("--seed", options.seed, "The same seed and input give the same batch on any number of threads")
      ->check(WholeNumber())
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  app.add_option("--threads", options.threads, "Processor cores to use")
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  app.add_option(
         "--memory", options.memory,
         "Memory limit of the process, such as 2GiB; an imported pool that is large compared with it stays on disk")
      ->default_str("three quarters of the machine's")
      ->type_name("SIZE")
      ->group(group);
}

}  // namespace

void AddSelectOptions(CLI::App& app, SelectOptions& options) {
  AddInputs(app, options);
  AddColumnFlags(app, options.columns);
  AddSelection(app, options);
  AddLeverage(app, options);
  AddClassifier(app, options);
  AddStream(app, options.stream);
  AddOutputs(app, options);
  AddRunning(app, options);
  app.footer(absl::StrCat(kSelectFooter, "\n", EngineHelp(), "\n", ExitCodeHelp()));
}

}  // namespace fulcrum::pipeline
