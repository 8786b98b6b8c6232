// What long streams of CampaignService send, a page at a time: every label, a model's file.
//
// Each belongs to one stream and is used by one thread at a time. An empty page is the end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "storage/campaign_reader.h"

namespace fulcrum::pipeline {

/// The labels of a campaign, in the order they were given.
class LabelPages {
 public:
  explicit LabelPages(std::string folder) : folder_(std::move(folder)) {}
  absl::StatusOr<std::vector<v1::ExportedLabel>> Next();

 private:
  const std::string folder_;
  std::unique_ptr<storage::CampaignReader> reader_;
  std::int64_t next_ = 1;  // sequence
};

/// A model: its description, then its file.
class ModelPages {
 public:
  /// Round 0 is the latest model's.
  ModelPages(std::shared_ptr<Campaign> campaign, std::int64_t round) : campaign_(std::move(campaign)), round_(round) {}
  absl::StatusOr<std::vector<v1::ModelChunk>> Next();

 private:
  absl::StatusOr<v1::ModelChunk> Describe();

  std::shared_ptr<Campaign> campaign_;  // until the file is read
  const std::int64_t round_;
  std::string bytes_;
  std::size_t sent_ = 0;
};

}  // namespace fulcrum::pipeline
