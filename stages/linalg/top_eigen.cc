#include "stages/linalg/top_eigen.h"

#include "stages/linalg/blas.h"

namespace fulcrum::linalg {

double RitzValue(const TopEigen& top, std::size_t index) {
  if (index < top.values.size() || top.multiplied.empty()) return top.values[index];
  return Dot(top.vectors.row(index), top.multiplied.row(index));
}

}  // namespace fulcrum::linalg
