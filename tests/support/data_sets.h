// Real data sets for tests and benchmarks. The repository holds none of them: they are looked for in
// $FULCRUM_DATA, else in ../shared/data beside the checkout, and a test that misses one is skipped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stages/core/matrix.h"

namespace fulcrum::testing {

/// Path of a data file, or nothing where it is absent.
std::optional<std::string> FindDataFile(const std::string& name);

struct DataSet {
  Matrix<double> features;
  std::vector<int> labels;  ///< as in the file: -1 and 1
};

/// Reads `label,f0,f1,...`, gzipped. Deliberately a reader of its own, independent of stages/ingest.
std::optional<DataSet> LoadDataSet(const std::string& name);

/// z-score (sample deviation; one below 1e-5 counts as 1), then every row to unit length, in place.
void StandardizeAndScaleToUnit(MutableMatrixView features);

/// The rows whose label is `label`, at most `count` of them.
Matrix<double> RowsWithLabel(const DataSet& data, int label, std::size_t count);

}  // namespace fulcrum::testing

/// Skips the running test where a data file is absent, saying which.
#define FULCRUM_SKIP_WITHOUT_DATA(name)                                                       \
  if (!::fulcrum::testing::FindDataFile(name)) {                                              \
    GTEST_SKIP() << "data file " << (name) << " is not here; set FULCRUM_DATA to its folder"; \
  }                                                                                           \
  static_assert(true)
