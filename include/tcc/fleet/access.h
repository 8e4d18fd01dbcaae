// How a program reaches the server of a fleet: its address, and the secrets of its role. Secrets come from a file or
// from the environment, never from the command line, which other users of a machine can read.
#pragma once

#include <string>
#include <string_view>

#include "tcc/support/result.h"

namespace tcc::fleet {

struct Access {
  std::string url;  // nats://HOST:PORT or tls://HOST:PORT
  // One of: user and password; a token; an NKey (the file of its seed and its public key); a file of credentials.
  std::string user, password, token, nkey, nkey_seed_file, credentials_file;
  // TLS: authorities that the server's certificate is checked with, "" = the system's; this side's certificate and key.
  std::string ca_file, certificate_file, key_file;
  std::string key;      // shared by all of a fleet: authenticates messages
  double patience = 5;  // seconds that the server may take to answer a request

  bool tls() const { return url.starts_with("tls://"); }
};

inline constexpr size_t kLeastKeyBytes = 16, kMaxSecretsBytes = 64 << 10;

// Reads lines "NAME VALUE" into `access`: user, password, token, nkey, nkey_seed_file, credentials_file, ca_file,
// certificate_file, key_file, key. Empty lines and lines that begin with # count for nothing. `file`: for messages;
// relative names of files are relative to its folder. Errors (input): an unknown name, a missing value; no value of a
// secret appears in a message.
Result<void> parse_secrets(std::string_view text, const std::string& file, Access& access);
// The same from a file. Errors (input): besides, others than its owner may read the file.
Result<void> read_secrets(const std::string& file, Access& access);

// Errors (usage): not nats:// or tls:// with a host; user or password in the address.
Result<void> check_url(const std::string& url);
// Errors (usage): no key for messages, a key that is too short, secrets that do not go together.
Result<void> check_access(const Access& access);
// HOST of the address, without port and brackets.
std::string host_of(const std::string& url);

}  // namespace tcc::fleet
