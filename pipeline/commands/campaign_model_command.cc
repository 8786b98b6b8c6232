// `fulcrum campaign model NAME`: a trained model as a file.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/commands/campaign_commands.h"
#include "stages/core/atomic_file.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

struct ModelOptions {
  CampaignOptions campaign = {};
  std::int64_t round = 0;
  std::string out = {};
};

absl::Status FetchModel(const ModelOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(auto connection, ServerConnection::Open(options.campaign.connection));
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(options.out));
  FULCRUM_ASSIGN_OR_RETURN(
      const v1::ModelDescription model,
      CampaignCalls(connection).GetModel(options.campaign.name, options.round, [&](const std::string& bytes) {
        return file.Write(bytes);
      }));
  FULCRUM_RETURN_IF_ERROR(file.Commit());
  return PrintAnswer(options.campaign,
                     absl::StrCat(options.out, ": the model of round ", model.round(), ", trained on the log up to ",
                                  model.trained_on(), ", ", model.bytes(), " bytes\n"),
                     model);
}

CommandRun AddModel(CLI::App& app) {
  auto options = std::make_shared<ModelOptions>();
  AddCampaignName(app, options->campaign);
  app.add_option("--out", options->out, "File to write")->type_name("FILE")->required();
  app.add_option("--round", options->round, "The round that it was trained for; the latest unless given")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  AddCampaignOptions(app, options->campaign);
  app.footer(
      "The file holds the support vectors with their features and predicts without the pool; its format is in\n"
      "stages/classify/svm_io.h. It appears when it is whole.");
  return [options] { return FetchModel(*options); };
}

}  // namespace

Command CampaignModelCommand() {
  return {"model", "Pool and models", "Write a trained model to a file", AddModel};
}

}  // namespace fulcrum::pipeline
