// Engines without a kernel matrix: the cost of a pass of the tiled engine, the accuracy of landmarks, and selection and
// rounds over millions of rows. Without arguments all sections run, which takes a quarter of an hour on two cores.
#include <cstdio>
#include <cstring>

#include "tests/benchmarks/large_sections.h"

namespace fulcrum::benchmarks {
namespace {

struct Section {
  const char* name;
  void (*run)();
};

constexpr Section kSections[] = {{"tiled-pass", MeasureTiledPass},
                                 {"tiled-solve", MeasureTiledSolve},
                                 {"landmarks", CompareLandmarks},
                                 {"landmarks-large", CompareLandmarksLarge},
                                 {"selection", MeasureSelection},
                                 {"prediction", MeasurePrediction},
                                 {"hundred-thousand", MeasureHundredThousandRows},
                                 {"million", MeasureMillionRows},
                                 {"ten-million", MeasureTenMillionRows}};

bool IsNamed(const Section& section, int count, char** names) {
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(names[i], section.name) == 0) return true;
  }
  return count == 1;
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main(int count, char** names) {
  for (const auto& section : fulcrum::benchmarks::kSections) {
    if (fulcrum::benchmarks::IsNamed(section, count, names)) section.run();
  }
  return 0;
}
