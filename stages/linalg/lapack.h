// Cholesky factorisation and the triangular solves that go with it, on row-major matrices.
//
// The solves run on the calling thread and are thread-safe on disjoint rows, so callers tile. The factorisation can be
// abandoned inside a StopScope (RunAbandonably below).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"

namespace fulcrum::linalg {

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
