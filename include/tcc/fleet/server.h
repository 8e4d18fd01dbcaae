// Files of a NATS server for a fleet: its configuration, and the secrets of the three roles.
#pragma once

#include <cstdint>
#include <string>

#include "tcc/support/result.h"

namespace tcc::fleet {

struct ServerOptions {
  std::string folder;              // of the files and of the store
  std::string host = "127.0.0.1";  // that it listens on
  int64_t port = 4222;
  std::string certificate_file, key_file, ca_file;  // TLS; "" = none. ca_file: of clients' secrets
};

// Writes server.conf, tuner.secrets, worker.secrets and viewer.secrets (readable by their owner) where they are
// missing; secrets that are there stay, the configuration is written anew from them. Errors: the folder cannot be
// written; a listening address that is not this machine's own without TLS.
Result<void> write_server_files(const ServerOptions& options);

// Becomes nats-server with that configuration. Returns only where it cannot be started.
Error run_server(const std::string& folder);

// The configuration as text: permissions of the roles, JetStream with files. Passwords are those of the three roles.
std::string server_configuration(const ServerOptions& options, const std::string& tuner, const std::string& worker,
                                 const std::string& viewer);

}  // namespace tcc::fleet
