// The one place that knows which BLAS and LAPACK is linked. Included by stages/linalg's sources only.
#pragma once

#if FULCRUM_BLAS_MKL
#include <mkl.h>
#else
#include <cblas.h>
#include <lapacke.h>
// A part of LAPACK that LAPACKE does not declare and MKL does.
extern "C" void dlatrd_(const char* triangle, const int* rows, const int* width, double* matrix, const int* stride,
                        double* beside, double* scales, double* updates, const int* updates_stride);
#endif
