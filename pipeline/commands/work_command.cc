// `fulcrum work`: a labeling worker, either a person at the terminal or a simulated one.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/client/annotators.h"
#include "pipeline/client/campaign_text.h"
#include "pipeline/client/labeling_calls.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/client/work_session.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/spec_reader.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kWorkFooter[] =
    R"(At a terminal, without --oracle: shows the payload of each example and takes one key per class.
  u  undoes the last answer; an answer is sent when the next one is given
  s  skips, and asks for the reason: unsure, bad item, not now
  q  quits, and releases the tasks that it holds

With --oracle FILE it answers from a file (id,label, or a pool with a label column; without an id column
the ids are row numbers from 0) and simulates a person. Two workers with the same --seed make mistakes on
different examples, and each makes the same ones every time.

Works on one stream, on which the server sends the next tasks ahead. If the server becomes unavailable, every
request is retried with the same request id, so that no label is lost or counted twice. If there is nothing to
label, it says what the campaign waits for. Ends with exit code 0 when the campaign is over, or by q, Ctrl-C or SIGTERM.

Example:
  fulcrum work --campaign digits --annotator anna
  fulcrum work --campaign digits --annotator robot-1 --oracle pool.csv --accuracy 0.95 --delay 50ms)";

constexpr int kMostBatch = 1000;

struct WorkCommandOptions {
  ConnectionOptions connection = {};
  std::string campaign = {};
  std::string annotator = {};
  std::string oracle = {};
  double accuracy = 1;
  double skip_rate = 0;
  double crash_rate = 0;
  std::string delay = "0s";
  std::string retry_for = "5m";
  std::string memory = "2GiB";
  int batch = 10;
  std::uint64_t seed = 1;
  bool quiet = false;
};

absl::StatusOr<std::chrono::milliseconds> ReadDuration(const std::string& option, const std::string& text) {
  if (const auto duration = ParseDurationText(text)) return absl::ToChronoMilliseconds(*duration);
  return absl::InvalidArgumentError(absl::StrCat(option, " is '", text, "'; it must be ", kDurationForm));
}

std::function<void(const std::string&)> SayIdle(const WorkCommandOptions& options) {
  if (options.quiet) return {};
  return [](const std::string& reasons) {
    std::fprintf(stderr, "fulcrum work: nothing to label; the campaign waits: %s\n", PrintableLine(reasons).c_str());
  };
}

absl::StatusOr<std::unique_ptr<Annotator>> MakeImitation(const WorkCommandOptions& options, const Timing& timing) {
  FULCRUM_ASSIGN_OR_RETURN(const std::chrono::milliseconds delay, ReadDuration("--delay", options.delay));
  FULCRUM_ASSIGN_OR_RETURN(const ingest::InputLimits limits, LimitsOf(options.memory));
  absl::StatusOr<Oracle> oracle = LoadOracle(options.oracle, limits);
  FULCRUM_RETURN_IF_ERROR(WithMemoryAdvice(oracle.status(), options.memory));
  const ImitationOptions imitation{.accuracy = options.accuracy,
                                   .skip_rate = options.skip_rate,
                                   .crash_rate = options.crash_rate,
                                   .delay = delay,
                                   .seed = options.seed,
                                   .annotator = options.annotator,
                                   .on_idle = SayIdle(options)};
  return std::make_unique<SimulatedAnnotator>(*std::move(oracle), imitation, timing);
}

absl::Status CheckTerminal() {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "standard input and output are not a terminal; run it in one, or answer from a file with --oracle");
}

Retrier::OnTrouble SayTrouble(const WorkCommandOptions& options) {
  if (options.quiet) return {};
  return [&options](const absl::Status& status) {
    std::fprintf(stderr, "fulcrum work: %s\nfulcrum work: retrying for up to %s\n",
                 std::string(status.message()).c_str(), options.retry_for.c_str());
  };
}

absl::Status RunSession(const WorkCommandOptions& options, std::shared_ptr<const ServerConnection> connection,
                        Annotator& annotator, const StopFlag& stop, const Timing& timing) {
  FULCRUM_ASSIGN_OR_RETURN(const std::chrono::milliseconds retry_for, ReadDuration("--retry-for", options.retry_for));
  const std::unique_ptr<LabelingCalls> calls =
      MakeStreamLabelingCalls(std::move(connection), options.campaign, options.annotator, options.batch, stop);
  WorkSession session({.batch = options.batch,
                       .retry = {.give_up_after = retry_for},
                       .seed = static_cast<std::uint64_t>(getpid()),
                       .crash = [] { _exit(1); },
                       .on_trouble = SayTrouble(options)},
                      *calls, annotator, timing);
  const absl::Status status = session.Run();
  if (!options.quiet) {
    const std::string who = options.annotator.empty() ? "" : options.annotator + ": ";
    std::printf("%s%s\n", who.c_str(), DescribeWork(session.summary()).c_str());
    std::fflush(stdout);
  }
  return status;
}

absl::Status Work(const WorkCommandOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.connection));
  StopFlag stop;
  const Timing timing = WallTiming(stop);
  if (!options.oracle.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<Annotator> annotator, MakeImitation(options, timing));
    const StopOnSignals signals(stop);
    return RunSession(options, std::move(connection), *annotator, stop, timing);
  }
  FULCRUM_RETURN_IF_ERROR(CheckTerminal());
  const StopOnSignals signals(stop);
  RawTerminal terminal(STDIN_FILENO, STDOUT_FILENO, stop);
  TerminalAnnotator annotator(terminal);
  return RunSession(options, std::move(connection), annotator, stop, timing);
}

void AddImitationOptions(CLI::App& app, WorkCommandOptions& options) {
  const auto share = CLI::Range(0.0, 1.0).description("");
  constexpr char kGroup[] = "Simulation";
  app.add_option("--oracle", options.oracle, "Answer from this file instead of asking a person")
      ->type_name("FILE")
      ->group(kGroup);
  const auto add_share = [&](const char* name, double& value, const char* what) {
    app.add_option(name, value, what)->type_name("SHARE")->capture_default_str()->check(share)->group(kGroup);
  };
  add_share("--accuracy", options.accuracy, "Share of correct answers; wrong ones are any other class");
  add_share("--skip-rate", options.skip_rate, "Share of tasks skipped as unsure");
  add_share("--crash-rate", options.crash_rate, "Share of tasks at which the worker crashes, with exit code 1");
  app.add_option("--delay", options.delay, "Time that an answer takes")
      ->type_name("TIME")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--seed", options.seed, "Seed of the choice of answers that are wrong, skipped or crash")
      ->type_name("N")
      ->capture_default_str()
      ->check(WholeNumber())
      ->group(kGroup);
  AddMemoryOption(app, options.memory, kGroup);
}

CommandRun AddWork(CLI::App& app) {
  auto options = std::make_shared<WorkCommandOptions>();
  app.add_option("--campaign", options->campaign, "Campaign to work for")->type_name("NAME")->required();
  app.add_option("--annotator", options->annotator, "Name of the annotator; not needed if the token names one")
      ->type_name("NAME");
  app.add_option("--batch", options->batch, "Tasks to hold at a time, 1 to 1000")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostBatch).description(""));
  app.add_option("--retry-for", options->retry_for, "How long to retry while the server is unavailable")
      ->type_name("TIME")
      ->capture_default_str();
  app.add_flag("--quiet", options->quiet, "Print errors only");
  AddImitationOptions(app, *options);
  AddConnectionOptions(app, options->connection);
  app.footer(absl::StrCat(kWorkFooter, "\n\n", ExitCodeHelp()));
  return [options] { return Work(*options); };
}

}  // namespace

Command WorkCommand() {
  return {"work", "Campaigns", "Label for a campaign: at the terminal, or from a file", AddWork,
          Command::Processes::kIndependent};
}

}  // namespace fulcrum::pipeline
