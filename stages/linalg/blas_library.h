// The one place that knows which BLAS and LAPACK the program uses. Included by the sources of stages/linalg only.
//
// MKL is loaded when its first function is called, not when the program starts: a client that labels or watches a
// campaign never needs it. Inside fulcrum::linalg each name below stands for the library's function of that name.
#pragma once

#if FULCRUM_BLAS_MKL
#include <mkl.h>

#include <atomic>
#else
#include <cblas.h>
#include <lapacke.h>
// A part of LAPACK that LAPACKE does not declare and MKL does.
extern "C" void dlatrd_(const char* triangle, const int* rows, const int* width, double* matrix, const int* stride,
                        double* off_diagonal, double* scales, double* updates, const int* updates_stride);
#endif

#if FULCRUM_BLAS_MKL
namespace fulcrum::linalg {

/// The address of a function of MKL, which is loaded by the first call. Ends the process with a message if the library
/// or the function cannot be found: nothing can be computed without it. Thread-safe.
void* FindMklFunction(const char* name);

template <typename Function>
class LazyFunction;

template <typename Result, bool kNoThrow, typename... Arguments>
class LazyFunction<Result (*)(Arguments...) noexcept(kNoThrow)> {
 public:
  explicit constexpr LazyFunction(const char* name) : name_(name) {}

  Result operator()(Arguments... arguments) const {
    void* found = address_.load(std::memory_order_acquire);
    if (found == nullptr) {
      found = FindMklFunction(name_);
      address_.store(found, std::memory_order_release);
    }
    return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
  }

 private:
  const char* name_;
  mutable std::atomic<void*> address_ = nullptr;
};

#define FULCRUM_MKL_FUNCTION(name) inline constinit const LazyFunction<decltype(&::name)> name(#name)
FULCRUM_MKL_FUNCTION(LAPACKE_dormtr);
FULCRUM_MKL_FUNCTION(LAPACKE_dpotrf);
FULCRUM_MKL_FUNCTION(LAPACKE_dstedc);
FULCRUM_MKL_FUNCTION(LAPACKE_dstemr);
FULCRUM_MKL_FUNCTION(LAPACKE_dsterf);
FULCRUM_MKL_FUNCTION(LAPACKE_dsytrd);
FULCRUM_MKL_FUNCTION(MKL_Get_Version);
FULCRUM_MKL_FUNCTION(MKL_Thread_Free_Buffers);
FULCRUM_MKL_FUNCTION(cblas_daxpy);
FULCRUM_MKL_FUNCTION(cblas_ddot);
FULCRUM_MKL_FUNCTION(cblas_dgemm);
FULCRUM_MKL_FUNCTION(cblas_dgemv);
FULCRUM_MKL_FUNCTION(cblas_dnrm2);
FULCRUM_MKL_FUNCTION(cblas_dsyr2k);
FULCRUM_MKL_FUNCTION(cblas_dtrsm);
FULCRUM_MKL_FUNCTION(cblas_sgemm);
FULCRUM_MKL_FUNCTION(cblas_sgemv);
FULCRUM_MKL_FUNCTION(dlatrd_);
FULCRUM_MKL_FUNCTION(mkl_sparse_d_create_csr);
FULCRUM_MKL_FUNCTION(mkl_sparse_d_spmmd);
FULCRUM_MKL_FUNCTION(mkl_sparse_destroy);
#undef FULCRUM_MKL_FUNCTION

}  // namespace fulcrum::linalg
#endif
