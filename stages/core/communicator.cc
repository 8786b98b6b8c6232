#include "stages/core/communicator.h"

#include <limits.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace fulcrum {
namespace {

class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string host() const override {
    char name[HOST_NAME_MAX + 1] = {};
    return gethostname(name, sizeof(name) - 1) == 0 ? std::string(name) : std::string("this machine");
  }
  std::vector<std::string> Gather(std::string bytes) const override { return {std::move(bytes)}; }
  void Broadcast(std::string&, int) const override {}
  void ReduceSum(std::span<double>) const override {}
  void Barrier() const override {}
};

}  // namespace

const Communicator& OneProcess() {
  static const Alone alone;
  return alone;
}

absl::Status AgreeOn(const Communicator& peers, const absl::Status& status) {
  if (peers.is_alone()) return status;
  std::string mine;
  if (!status.ok()) {
    mine = absl::StrCat(static_cast<int>(status.code()), " rank ", peers.rank(), " on ", peers.host(), ": ",
                        status.message());
  }
  std::string first;
  for (std::string& text : peers.Gather(std::move(mine))) {
    if (first.empty()) first = std::move(text);
  }
  peers.Broadcast(first);
  absl::Status agreed;
  if (!first.empty()) {
    const std::size_t space = first.find(' ');
    agreed = absl::Status(static_cast<absl::StatusCode>(std::stoi(first.substr(0, space))), first.substr(space + 1));
  }
  peers.NoteAgreement(agreed);
  return agreed;
}

}  // namespace fulcrum
