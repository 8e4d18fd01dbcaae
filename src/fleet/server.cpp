#include "tcc/fleet/server.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tcc/fleet/access.h"
#include "tcc/fleet/message.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::fleet {
namespace {

Result<std::string> random_hex(size_t bytes) {
  std::string raw(bytes, '\0');
  if (getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size()))
    return environment_error("the system gives no random numbers: {}", std::strerror(errno));
  std::string out;
  for (const char c : raw) out += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return out;
}

// Never readable by others, not even while it is written.
Result<void> write_secret(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return environment_error("'{}' cannot be made: {}", sanitize(path), std::strerror(errno));
  const ssize_t written = write(fd, text.data(), text.size());
  close(fd);
  if (written == static_cast<ssize_t>(text.size())) return {};
  return environment_error("'{}' cannot be written: {}", sanitize(path), std::strerror(errno));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string server_configuration(const ServerOptions& o, const std::string& tuner, const std::string& worker,
                                 const std::string& viewer) {
  std::string text = fmt::format(
      "# Written by `tcc fleet serve`.\nlisten: {}\nmax_payload: 1MB\n",
      quoted(fmt::format("{}:{}", o.host.find(':') != std::string::npos ? "[" + o.host + "]" : o.host, o.port)));
  text += fmt::format("jetstream {{ store_dir: {} }}\n", quoted(o.folder + "/store"));
  if (!o.certificate_file.empty())
    text += fmt::format("tls {{ cert_file: {}, key_file: {}, timeout: 5 }}\n", quoted(o.certificate_file),
                        quoted(o.key_file));
  // The tuner makes streams and consumers. A worker reads tasks and jobs, and writes answers, beats and what its class
  // is compared with. A viewer reads beats and states.
  constexpr const char* kWorker = R"(
        "tcc.result.*", "tcc.beat.*", "tcc.class.*", "tcc.poison.*", "$JS.ACK.>",
        "$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.INFO.*.*",
        "$JS.API.CONSUMER.CREATE.TCC_BEATS", "$JS.API.CONSUMER.CREATE.TCC_BEATS.>",
        "$JS.API.CONSUMER.DELETE.TCC_BEATS.*", "$JS.API.STREAM.MSG.GET.TCC_TASKS", "$JS.API.STREAM.MSG.GET.TCC_CLASSES",
        "$JS.FC.>"])";
  constexpr const char* kViewer = R"([
        "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.INFO.*.*",
        "$JS.API.CONSUMER.CREATE.TCC_BEATS", "$JS.API.CONSUMER.CREATE.TCC_BEATS.>", "$JS.API.CONSUMER.DELETE.TCC_BEATS.*",
        "$JS.FC.>"])";
  std::string lanes;
  for (int lane = 0; lane < kLanes; ++lane)
    lanes += fmt::format("{}\"$JS.API.CONSUMER.MSG.NEXT.*.{}\"", lane > 0 ? ", " : "", lane_consumer(lane));
  text += fmt::format(R"(authorization {{
  users: [
    {{ user: tuner, password: {},
      permissions: {{ publish: ["tcc.>", "$JS.>"], subscribe: ["_INBOX.>"] }} }}
    {{ user: worker, password: {},
      permissions: {{ publish: [{},{},
      subscribe: ["_INBOX.>", "tcc.control", "tcc.final.*"] }} }}
    {{ user: viewer, password: {},
      permissions: {{ publish: {},
      subscribe: ["_INBOX.>"] }} }}
  ]
}}
)",
                      quoted(tuner), quoted(worker), lanes, kWorker, quoted(viewer), kViewer);
  return text;
}

Result<void> write_server_files(const ServerOptions& given) {
  ServerOptions o = given;
  if (o.certificate_file.empty() != o.key_file.empty())
    return make_error(ErrorClass::kUsage, "expected --tls-cert and --tls-key together, found one of them",
                      "name the certificate of the server and its key");
  if (o.certificate_file.empty() && !is_loopback(o.host))
    return make_error(ErrorClass::kUsage,
                      fmt::format("--listen: expected an address of this machine alone (127.0.0.1) without TLS, found "
                                  "'{}'",
                                  sanitize(o.host)),
                      "give --tls-cert and --tls-key: secrets and programs would cross the network readable");
  TCC_TRY_VOID(make_directories(o.folder));
  if (chmod(o.folder.c_str(), 0700) != 0)
    return environment_error("'{}' cannot be kept from others: {}", sanitize(o.folder), std::strerror(errno));
  std::string passwords[3];
  std::string key;
  constexpr const char* kRoles[] = {"tuner", "worker", "viewer"};
  const auto path_of = [&](int i) { return fmt::format("{}/{}.secrets", o.folder, kRoles[i]); };
  for (int i = 0; i < 3; ++i) {
    if (!file_exists(path_of(i))) continue;
    Access access;
    TCC_TRY_VOID(read_secrets(path_of(i), access));
    passwords[i] = access.password;
    if (!key.empty() && access.key != key)
      return input_error("'{}' has another key than the secrets of the other roles", sanitize(path_of(i)));
    key = access.key;
  }
  for (int i = 0; i < 3; ++i) {
    if (!passwords[i].empty()) continue;
    if (key.empty()) {
      TCC_TRY(key, random_hex(32));
    }
    TCC_TRY(passwords[i], random_hex(16));
    std::string text = fmt::format("# Of the role {}: keep it from others.\nuser {}\npassword {}\nkey {}\n", kRoles[i],
                                   kRoles[i], passwords[i], key);
    if (!o.ca_file.empty()) text += fmt::format("ca_file {}\n", o.ca_file);
    TCC_TRY_VOID(write_secret(path_of(i), text));
  }
  const std::string path = o.folder + "/server.conf";
  unlink(path.c_str());
  return write_secret(path, server_configuration(o, passwords[0], passwords[1], passwords[2]));
}

Error run_server(const std::string& folder) {
  const std::string configuration = folder + "/server.conf";
  // nats-server is in /usr/sbin, which users' paths may lack.
  for (const char* program : {"nats-server", "/usr/sbin/nats-server", "/usr/local/bin/nats-server"})
    execlp(program, "nats-server", "-c", configuration.c_str(), nullptr);
  return {ErrorClass::kEnvironment,
          fmt::format("expected the program nats-server, found none: {}", std::strerror(errno)),
          "install it (Debian: apt-get install nats-server), or run one elsewhere with server.conf of this folder",
          {}};
}

}  // namespace tcc::fleet
