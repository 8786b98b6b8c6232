// The only file that calls MPI. Without the option FULCRUM_MPI there is one process.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pipeline/cluster/cluster_round.h"
#include "stages/core/files.h"

#if FULCRUM_MPI
#include <mpi.h>
#endif

namespace fulcrum::pipeline {

namespace {

struct Launched {
  int size = 1;
  int rank = 0;
};

Launched ReadEnvironment() {
  const auto number = [](const char* name) {
    const char* const text = std::getenv(name);
    int value = 0;
    return text != nullptr && absl::SimpleAtoi(text, &value) ? value : 0;
  };
  // Open MPI, MPICH and Intel MPI, Slurm's own launcher.
  constexpr std::pair<const char*, const char*> kNames[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                                            {"PMI_SIZE", "PMI_RANK"},
                                                            {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
  for (const auto& [size, rank] : kNames) {
    if (number(size) > 1) return {.size = number(size), .rank = number(rank)};
  }
  return {};
}

}  // namespace

int LaunchedProcesses() {
  return ReadEnvironment().size;
}

int LaunchedRank() {
  return ReadEnvironment().rank;
}

#if FULCRUM_MPI

bool HasMpi() {
  return true;
}

namespace {

// MPI counts in int; messages are cut into parts of this size.
constexpr std::size_t kMostBytes = std::size_t{256} << 20;
constexpr int kDataTag = 1;

class MpiProcesses final : public Communicator {
 public:
  MpiProcesses() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(name, &length);
    host_.assign(name, static_cast<std::size_t>(length));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host() const override { return host_; }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  void NoteAgreement(const absl::Status& status) const override { agreed_to_fail_ = !status.ok(); }
  bool agreed_to_fail() const { return agreed_to_fail_; }

  std::vector<std::string> Gather(std::string bytes) const override {
    const std::uint64_t own = bytes.size();
    std::vector<std::uint64_t> sizes(is_root() ? static_cast<std::size_t>(size_) : 0);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Igather(&own, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, kRoot, MPI_COMM_WORLD, &request);
    Wait(request);
    if (!is_root()) {
      Count(sizeof(own) + own);
      for (std::size_t first = 0; first < bytes.size(); first += kMostBytes) {
        const int count = static_cast<int>(std::min(kMostBytes, bytes.size() - first));
        MPI_Isend(bytes.data() + first, count, MPI_BYTE, kRoot, kDataTag, MPI_COMM_WORLD, &request);
        Wait(request);
      }
      return {};
    }
    std::vector<std::string> all(static_cast<std::size_t>(size_));
    all[kRoot] = std::move(bytes);
    for (int from = 1; from < size_; ++from) {
      std::string& part = all[static_cast<std::size_t>(from)];
      part.resize(sizes[static_cast<std::size_t>(from)]);
      for (std::size_t first = 0; first < part.size(); first += kMostBytes) {
        const int count = static_cast<int>(std::min(kMostBytes, part.size() - first));
        MPI_Irecv(part.data() + first, count, MPI_BYTE, from, kDataTag, MPI_COMM_WORLD, &request);
        Wait(request);
      }
    }
    return all;
  }

  void Broadcast(std::string& bytes, int from) const override {
    std::uint64_t total = bytes.size();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(&total, 1, MPI_UINT64_T, from, MPI_COMM_WORLD, &request);
    Wait(request);
    // A tree sends each byte to every other rank once.
    if (rank_ == from) Count((sizeof(total) + total) * static_cast<std::uint64_t>(size_ - 1));
    bytes.resize(total);
    for (std::size_t first = 0; first < bytes.size(); first += kMostBytes) {
      const int count = static_cast<int>(std::min(kMostBytes, bytes.size() - first));
      MPI_Ibcast(bytes.data() + first, count, MPI_BYTE, from, MPI_COMM_WORLD, &request);
      Wait(request);
    }
  }

  void ReduceSum(std::span<double> values) const override {
    constexpr std::size_t kMostValues = kMostBytes / sizeof(double);
    if (!is_root()) Count(values.size_bytes());
    std::vector<double> sums(is_root() ? std::min(values.size(), kMostValues) : 0);
    for (std::size_t first = 0; first < values.size(); first += kMostValues) {
      const std::span<double> part = values.subspan(first, std::min(kMostValues, values.size() - first));
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Ireduce(part.data(), sums.data(), static_cast<int>(part.size()), MPI_DOUBLE, MPI_SUM, kRoot, MPI_COMM_WORLD,
                  &request);
      Wait(request);
      if (is_root()) std::copy_n(sums.begin(), part.size(), part.begin());
    }
  }

  void Barrier() const override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    Wait(request);
  }

 private:
  /// Does not keep a core busy while other ranks compute, which may be on the same machine.
  static void Wait(MPI_Request& request) {
    constexpr int kTestsAtOnce = 2000;
    int done = 0;
    for (int test = 0; done == 0; ++test) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (test > kTestsAtOnce) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void Count(std::uint64_t bytes) const { bytes_sent_ += bytes; }

  int rank_ = 0;
  int size_ = 1;
  std::string host_;
  mutable std::uint64_t bytes_sent_ = 0;
  mutable bool agreed_to_fail_ = false;
};

}  // namespace

namespace {

/// What is in the file of the program.
std::string BuildOf() {
  std::ifstream program("/proc/self/exe", std::ios::binary);
  Checksum checksum;
  std::vector<char> part(std::size_t{1} << 20);
  while (program.read(part.data(), static_cast<std::streamsize>(part.size())) || program.gcount() > 0) {
    checksum.Add({part.data(), static_cast<std::size_t>(program.gcount())});
  }
  return checksum.ToText();
}

absl::Status CheckSameBuild(const Communicator& peers) {
  const std::string own = BuildOf();
  std::string of_root = own;
  peers.Broadcast(of_root);
  absl::Status status;
  if (of_root != own) {
    status =
        absl::FailedPreconditionError(absl::StrCat("the program here (", own, ") and that of rank 0 (", of_root,
                                                   ") are different builds; install the same one on every machine"));
  }
  return AgreeOn(peers, status);
}

[[noreturn]] void EndAll(const Communicator& peers, const std::string& command, const std::string& what, int code) {
  std::fprintf(stderr, "%s: rank %d on %s: %s\n", command.c_str(), peers.rank(), peers.host().c_str(), what.c_str());
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace

absl::Status RunInProcesses(const std::string& command, int (*exit_code)(const absl::Status&),
                            const std::function<absl::Status(const Communicator& peers)>& work) {
  const int launched = LaunchedProcesses();
  if (launched == 1) return work(OneProcess());
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  const MpiProcesses peers;
  absl::Status status;
  if (peers.is_alone()) {
    // A launcher of another MPI, or one without the interface that this one needs: the work would not be divided.
    MPI_Finalize();
    return absl::FailedPreconditionError(absl::StrCat(
        "this process is one of ", launched,
        " that a launcher started, but MPI does not know of the others: they would ",
        "all do the same work. Start it with the mpirun of the MPI that this build uses (srun: --mpi=pmix)"));
  }
  try {
    status = CheckSameBuild(peers);
    if (status.ok()) status = work(peers);
  } catch (const std::bad_alloc&) {
    EndAll(peers, command, "out of memory; give it more, or use more processes. No output was written",
           exit_code(absl::ResourceExhaustedError("")));
  } catch (const std::exception& exception) {
    EndAll(peers, command, absl::StrCat("unexpected error: ", exception.what()), exit_code(absl::InternalError("")));
  }
  // The others do not know of it, and wait for this rank.
  if (!status.ok() && !peers.agreed_to_fail()) {
    EndAll(peers, command, std::string(status.message()), exit_code(status));
  }
  MPI_Finalize();
  return peers.is_root() ? status : absl::OkStatus();
}

#else

bool HasMpi() {
  return false;
}

absl::Status RunInProcesses(const std::string&, int (*)(const absl::Status&),
                            const std::function<absl::Status(const Communicator& peers)>& work) {
  const int size = LaunchedProcesses();
  if (size == 1) return work(OneProcess());
  return absl::FailedPreconditionError(
      absl::StrCat("this process is one of ", size, " that a launcher started, and this build has no MPI: it would do ",
                   "the same work ", size, " times. Build Fulcrum with FULCRUM_MPI=ON, or start it once."));
}

#endif

}  // namespace fulcrum::pipeline
