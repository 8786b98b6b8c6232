// Real data sets for tests and benchmarks. They are not part of the repository. They are searched in $FULCRUM_DATA,
// otherwise in ../shared/data next to the checkout. A test whose data set is missing is skipped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stages/core/matrix.h"

namespace fulcrum::testing {

/// Returns the path of a data file, or nothing if it is missing.
std::optional<std::string> FindDataFile(const std::string& name);

struct DataSet {
  Matrix<double> features;
  std::vector<int> labels;  ///< as in the file: -1 and 1
};

/// Reads `label,f0,f1,...`, gzipped. A separate reader on purpose, independent of stages/ingest.
std::optional<DataSet> LoadDataSet(const std::string& name);

/// Applies the z-score (sample deviation; a deviation below 1e-5 counts as 1), then scales every row to unit length, in
/// place.
void StandardizeAndScaleToUnit(MutableMatrixView features);

/// Returns at most `count` rows with the given label.
Matrix<double> RowsWithLabel(const DataSet& data, int label, std::size_t count);

}  // namespace fulcrum::testing

/// Skips the running test and names the file if a data file is missing.
#define FULCRUM_SKIP_WITHOUT_DATA(name)                                                       \
  if (!::fulcrum::testing::FindDataFile(name)) {                                              \
    GTEST_SKIP() << "data file " << (name) << " is not here; set FULCRUM_DATA to its folder"; \
  }                                                                                           \
  static_assert(true)
