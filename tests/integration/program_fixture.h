// Runs the program on small files, as a user would.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::testing {

/// Rows of a CSV without quotes, each as column -> value.
using CsvRows = std::vector<std::map<std::string, std::string>>;

class ProgramTest : public ::testing::Test {
 protected:
  /// Runs the program with these words.
  static ProcessResult Run(std::vector<std::string> words, const ProcessOptions& options = {});
  /// `fulcrum select` on the folder's pool and labels, with more options.
  ProcessResult Select(const std::vector<std::string>& options) const;

  /// "r7"
  static std::string RowId(std::size_t row);
  /// Two clouds in four dimensions, ids r0, r1, ...: even rows around -1 ("neg"), odd ones around 1 ("pos").
  static std::string PoolText(std::size_t rows);
  /// Labels of the first `count` rows.
  static std::string LabelText(std::size_t count);
  void WritePool(std::size_t rows) const { folder_.Write("pool.csv", PoolText(rows)); }
  void WriteLabels(std::size_t count) const { folder_.Write("labels.csv", LabelText(count)); }

  std::string File(const std::string& name) const { return folder_.File(name); }
  std::string Read(const std::string& name) const;
  /// Names of the files in the folder, sorted.
  std::vector<std::string> Files() const;

  static CsvRows ParseCsv(const std::string& text);

  TemporaryDirectory folder_;
};

}  // namespace fulcrum::testing
