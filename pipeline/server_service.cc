#include "pipeline/server_service.h"

namespace fulcrum::pipeline {

ServerService::ServerService(const std::string& version, const std::vector<LibraryVersion>& components) {
  answer_.set_version(version);
  for (const LibraryVersion& component : components) {
    v1::ComponentVersion* entry = answer_.add_components();
    entry->set_name(component.name);
    entry->set_version(component.version);
  }
}

grpc::ServerUnaryReactor* ServerService::GetVersion(grpc::CallbackServerContext* context,
                                                    const v1::GetVersionRequest* /*request*/,
                                                    v1::GetVersionResponse* response) {
  *response = answer_;
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace fulcrum::pipeline
