// All runs of one task: which curves are in the journal already, and the others computed, several runs at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/experiment/curve.h"
#include "pipeline/experiment/experiment_spec.h"
#include "pipeline/experiment/run_journal.h"
#include "pipeline/experiment/run_splits.h"
#include "pipeline/experiment/task_data.h"
#include "pipeline/progress.h"

namespace fulcrum::pipeline {

/// How far the whole experiment is, in curves. Thread-safe.
struct JobProgress {
  Progress& progress;
  std::size_t total = 0;
  std::atomic<std::size_t> done = 0;

  void Finish(const std::string& what) { progress.UpdateJob(what, ++done, total); }
  void Skip() {
    ++done;
    progress.SkipJob();
  }
};

struct TaskRuns {
  const ExperimentSpec& spec;
  const TaskSettings& task;
  const TaskData& data;
  const RunSplits& splits;
  std::size_t threads = 1;
};

struct TaskRunsResult {
  std::vector<Curve> curves = {};  ///< by strategy in the order of the spec, the full-data line last; then by run
  std::size_t resumed = 0;
  std::size_t train_rows = 0;
  std::size_t test_rows = 0;
};

/// Runs of one task share nothing but its data. The first error ends them all; what was finished is in the journal.
absl::StatusOr<TaskRunsResult> RunTask(const TaskRuns& runs, RunJournal& journal, JobProgress& job);

}  // namespace fulcrum::pipeline
