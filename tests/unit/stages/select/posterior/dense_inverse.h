// Inverse of a small matrix by Gauss-Jordan elimination: a reference that shares nothing with LAPACK.
#pragma once

#include "stages/core/matrix.h"

namespace fulcrum::select {

Matrix<double> DenseInverse(ConstMatrixView matrix);

}  // namespace fulcrum::select
