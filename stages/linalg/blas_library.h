// The one place that knows which BLAS and LAPACK is linked. Included by stages/linalg's sources only.
#pragma once

#if FULCRUM_BLAS_MKL
#include <mkl.h>
#else
#include <cblas.h>
#include <lapacke.h>
#endif
