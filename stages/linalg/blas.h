// The BLAS and LAPACK operations Fulcrum uses, on row-major views.
//
// Every call runs on the calling thread (MKL is linked sequentially); callers tile and schedule with
// oneTBB. All functions are thread-safe on disjoint outputs. Shapes are checked by assertions only:
// they are the caller's own, never a user's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"

namespace fulcrum::linalg {

enum class Transpose { kNo, kYes };

/// c = alpha * op(a) * op(b) + beta * c. With beta = 0, c may hold anything before.
void Gemm(Transpose transpose_a, Transpose transpose_b, double alpha, ConstMatrixView a, ConstMatrixView b, double beta,
          MutableMatrixView c);
void Gemm(Transpose transpose_a, Transpose transpose_b, float alpha, MatrixView<const float> a,
          MatrixView<const float> b, float beta, MatrixView<float> c);

/// y = alpha * op(a) * x + beta * y.
void Gemv(Transpose transpose_a, double alpha, ConstMatrixView a, std::span<const double> x, double beta,
          std::span<double> y);
void Gemv(Transpose transpose_a, float alpha, MatrixView<const float> a, std::span<const float> x, float beta,
          std::span<float> y);

double Dot(std::span<const double> x, std::span<const double> y);
/// y += alpha * x.
void Axpy(double alpha, std::span<const double> x, std::span<double> y);
double Norm(std::span<const double> x);

// Operations on blocks of long vectors: a few hundred rows, each a vector over many pool rows.
//
// Vectors are rows, so that each lies in one piece and MKL multiplies short, wide matrices, which it does up to
// twice as fast as tall, narrow ones. Parallel over fixed slices of the vectors, sums taken in the order of the slices,
// so that results do not depend on the number of threads.

/// out(i, j) = inner product of vector i of `a` and vector j of `b`.
void InnerProducts(ConstMatrixView a, ConstMatrixView b, MutableMatrixView out);

/// result = alpha * coefficients * vectors + beta * result: each row a combination of `vectors`.
void Combine(double alpha, ConstMatrixView coefficients, ConstMatrixView vectors, double beta,
             MutableMatrixView result);

/// The first vectors of `block` become coefficients * block; a slice at a time, so that there is no second block.
void CombineInPlace(ConstMatrixView coefficients, MutableMatrixView block);

/// Makes the vectors of `block` orthonormal among themselves and orthogonal to the orthonormal vectors of `basis`.
/// Those that depend on the others are dropped, and so are those with no more than `noise` outside the
/// basis: the rounding error of what computed the block. Returns how many are left, the first ones.
std::size_t OrthonormalizeAgainst(ConstMatrixView basis, MutableMatrixView block, double noise = 0);

/// Writes the vectors of `block`, made orthonormal, and `companion` (A times the block, say) under the same rotation.
/// The outputs are of the same shape as the inputs. Returns how many are left, the first ones of both.
std::size_t OrthonormalizeTogether(ConstMatrixView block, ConstMatrixView companion, MutableMatrixView block_out,
                                   MutableMatrixView companion_out);

// Which linear algebra library answers at run time.

/// "MKL" or "OpenBLAS".
std::string LibraryName();
/// Version as the loaded library reports it, not as the headers said when this was compiled.
std::string LibraryVersion();

// Inner products between the rows of sparse matrices.
//
// On the calling thread; thread-safe on disjoint outputs. Shapes are checked by assertions only.

/// Rows of a sparse matrix (CSR), not owned. Row i has the elements offsets[i] to offsets[i + 1].
struct SparseRows {
  std::size_t cols = 0;
  std::span<const int> offsets;  ///< one more than there are rows
  std::span<const int> columns;  ///< ascending within a row
  std::span<const double> values;

  std::size_t rows() const { return offsets.size() - 1; }
};

/// out = a * b^T, by MKL's sparse BLAS if MKL is linked.
void MultiplyByTransposed(const SparseRows& a, const SparseRows& b, MutableMatrixView out);

/// The same without MKL: what the function above is on OpenBLAS, which has no sparse part.
void MultiplyByTransposedPortable(const SparseRows& a, const SparseRows& b, MutableMatrixView out);

// The exponential function of many numbers, which takes as much of the time of a kernel tile as its products.
//
// Written so that the compiler vectorises it for any BLAS: MKL's own takes twice as long on processors that are not
// Intel's, and OpenBLAS has none. Thread-safe on disjoint values.

/// values[i] = exp(values[i]), right to two units in the last place. If the result would not be a normal number it is
/// the smallest or largest one (about 1e-38 and 1e38 for float, 1e-308 and 1e308 for double).
void ExpInPlace(std::span<double> values);
void ExpInPlace(std::span<float> values);

/// dots[j] = exp(min(0, (2 dots[j] - norm - norms[j]) * inverse)): inner products of one point with others become a row
/// of an rbf kernel in one go. A distance that is negative by rounding counts as zero.
void ExpOfDistances(double norm, std::span<const double> norms, double inverse, std::span<double> dots);
void ExpOfDistances(float norm, std::span<const float> norms, float inverse, std::span<float> dots);

// Cholesky factorisation and the triangular solves that go with it, on row-major matrices.
//
// The solves run on the calling thread and are thread-safe on disjoint rows, so callers tile. The factorisation can be
// abandoned inside a StopScope (RunAbandonably below).

/// L with L L^T = matrix, which must be symmetric and positive definite. Works in place: consumes the matrix and
/// leaves what is above the diagonal undefined.
absl::StatusOr<Matrix<double>> FactorCholesky(Matrix<double> matrix);

/// Every row x of `rows` becomes L^-1 x. Only the lower triangle of `lower` is read.
void SolveLowerForRows(ConstMatrixView lower, MutableMatrixView rows);

/// Every row x of `rows` becomes L^-T x.
void SolveLowerTransposedForRows(ConstMatrixView lower, MutableMatrixView rows);

// The reduction of a dense symmetric matrix to tridiagonal form, with which LAPACK's dense eigensolvers begin.
//
// Written as the loop over panels that LAPACK's own dsytrd is, out of the same two routines, so that it can be stopped:
// inside a StopScope it ends between panels; one call for a matrix of ten thousand rows would take a
// minute. Pure functions, thread-safe.

/// Q T Q' = the matrix, T tridiagonal, Q a product of reflectors.
struct Tridiagonal {
  Matrix<double> reflectors;
  std::vector<double> diagonal;
  std::vector<double> off_diagonal;  ///< as long as the diagonal: some routines use the last element
  std::vector<double> scales;
};

/// Consumes the matrix, which must be symmetric with both triangles filled: the reflectors take its place.
absl::StatusOr<Tridiagonal> ReduceToTridiagonal(Matrix<double> matrix);

/// Every row x of `vectors` becomes Q x: eigenvectors of T become those of the matrix. In parallel.
absl::Status ApplyReflectors(const Tridiagonal& tridiagonal, MutableMatrixView vectors);

/// An error that names the routine if `failure` is not zero.
absl::Status CheckLapack(const char* routine, std::size_t rows, int failure);

// Calls that cannot be interrupted, run so that a caller that is asked to stop does not wait for their end.
//
// Inside a StopScope a large call runs on its own thread and owns all of its data. If the stop is requested first, the
// caller returns at once; the thread ends when the call is done, and its result is dropped. Thread-safe.

/// The number of abandoned calls that still run. A process that exits meanwhile must not destroy what they use: it
/// exits with _exit.
inline std::atomic<std::size_t>& AbandonedCalls() {
  static std::atomic<std::size_t> calls = 0;
  return calls;
}

/// Gives back the buffers that the library keeps for the calling thread. A thread that ends without it leaves them
/// allocated for the life of the process.
void ReleaseThreadBuffers();

/// Smaller problems end soon enough without a thread.
inline constexpr std::size_t kAbandonableRows = 512;

/// Runs `call.Run()` and returns the call with its results. It must own all of its data and not throw. Throws
/// StoppedOnRequest if the scope is asked to stop before the call has ended.
template <typename Call>
Call RunAbandonably(std::size_t rows, Call call) {
  std::stop_token stop = StopScope::Token();
  if (rows < kAbandonableRows || !stop.stop_possible()) {
    call.Run();
    return call;
  }
  struct Pending {
    explicit Pending(Call given) : call(std::move(given)) {}
    Call call;
    std::mutex mutex = {};
    std::condition_variable_any ended = {};
    bool done = false;
    bool abandoned = false;
  };
  const auto pending = std::make_shared<Pending>(std::move(call));
  std::thread([pending] {
    pending->call.Run();
    ReleaseThreadBuffers();
    const std::scoped_lock lock(pending->mutex);
    pending->done = true;
    pending->ended.notify_one();
    if (pending->abandoned) --AbandonedCalls();
  }).detach();
  std::unique_lock lock(pending->mutex);
  if (pending->ended.wait(lock, std::move(stop), [&] { return pending->done; })) return std::move(pending->call);
  pending->abandoned = true;
  ++AbandonedCalls();
  throw StoppedOnRequest();
}

}  // namespace fulcrum::linalg
