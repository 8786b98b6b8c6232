// fulcrum.v1.ServerService: what the running server is.
//
// Thread-safe: the answer is made once, in the constructor.
#pragma once

#include <string>
#include <vector>

#include "fulcrum/v1/server_service.grpc.pb.h"
#include "pipeline/version.h"

namespace fulcrum::pipeline {

class ServerService final : public v1::ServerService::CallbackService {
 public:
  ServerService(const std::string& version, const std::vector<LibraryVersion>& components);

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context, const v1::GetVersionRequest* request,
                                       v1::GetVersionResponse* response) override;

 private:
  v1::GetVersionResponse answer_;
};

}  // namespace fulcrum::pipeline
