// A daemon in this process with a small campaign, and a worker that gives correct labels.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "pipeline/operation/daemon.h"
#include "tests/daemon/support/daemon_client.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::testing {

/// Two clouds in four dimensions: even rows are "neg", odd ones "pos". The ids are the row numbers; the second text
/// also has them as a column.
std::string CloudsText(std::size_t rows);
std::string NamedCloudsText(std::size_t rows);
std::string AnswerTo(const std::string& item);

v1::CampaignSpec CloudSpec(const std::string& name, int rounds);

/// Labels tasks correctly until the campaign is over or `most_labels` labels were submitted. Retries calls unchanged
/// while the daemon is unavailable. Returns the sequence numbers of the acknowledged labels.
std::set<std::int64_t> WorkUntilOver(DaemonClient& client, const std::string& campaign, const std::string& annotator,
                                     std::size_t most_labels = SIZE_MAX);

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override;

  pipeline::DaemonOptions Options() const;
  void StartDaemon() { StartDaemon(Options()); }
  void StartDaemon(const pipeline::DaemonOptions& options);
  void StopDaemon();
  DaemonClient Client(const std::string& token = "") const { return DaemonClient(daemon_->port(), token); }

  TemporaryDirectory folder_;
  std::unique_ptr<pipeline::Daemon> daemon_;
};

}  // namespace fulcrum::testing
