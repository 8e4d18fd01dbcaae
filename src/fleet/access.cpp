#include "tcc/fleet/access.h"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::fleet {
namespace {

// X(name, is a file). The names of members of Access.
// clang-format off
#define TCC_FLEET_SECRETS(X) \
  X(user, false) X(password, false) X(token, false) X(nkey, false) X(nkey_seed_file, true) X(credentials_file, true) \
  X(ca_file, true) X(certificate_file, true) X(key_file, true) X(key, false)
// clang-format on

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

Result<void> parse_secrets(std::string_view text, const std::string& file, Access& access) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.empty() || row.front() == '#') continue;
    const size_t blank = std::min(row.find_first_of(" \t"), row.size());
    const std::string name(row.substr(0, blank));
    const std::string value(trimmed(row.substr(blank)));
    bool known = false;
#define TCC_X(member, is_file)                                                                                  \
  if (name == #member) {                                                                                        \
    known = true;                                                                                               \
    if (!value.empty()) access.member = is_file && !value.starts_with('/') ? (folder / value).string() : value; \
  }
    TCC_FLEET_SECRETS(TCC_X)
#undef TCC_X
    if (!known || value.empty()) {
      std::vector<std::string> names;
#define TCC_X(member, is_file) names.emplace_back(#member);
      TCC_FLEET_SECRETS(TCC_X)
#undef TCC_X
      const std::string near = known ? "" : suggest(name, names);
      return make_error(
          ErrorClass::kInput,
          fmt::format("{} line {}: expected the name of a secret and its value, found {}", sanitize(file), line,
                      known ? "no value of " + name : "the unknown name '" + sanitize(name, 40) + "'"),
          near.empty() ? "lines are as `user tuner`, `password ...`, `key ...`; see docs/fleet.md" : near);
    }
  }
  return {};
}

Result<void> read_secrets(const std::string& file, Access& access) {
  struct stat facts{};
  if (stat(file.c_str(), &facts) == 0 && (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return make_error(
        ErrorClass::kInput,
        fmt::format("expected secrets that only their owner can read, but others may read '{}'", sanitize(file)),
        fmt::format("chmod 600 {}", sanitize(file)));
  TCC_TRY(const std::string text, read_file(file, kMaxSecretsBytes));
  return parse_secrets(text, file, access);
}

std::string host_of(const std::string& url) {
  const size_t begin = std::min(url.find("://"), url.size());
  std::string rest = begin < url.size() ? url.substr(begin + 3) : url;
  rest = rest.substr(0, rest.find('/'));
  if (rest.starts_with('[')) return rest.substr(1, rest.find(']') - 1);
  return rest.substr(0, rest.find(':'));
}

Result<void> check_url(const std::string& url) {
  constexpr const char* kForm = "write it as nats://HOST:4222, or tls://HOST:4222 for an encrypted connection";
  const bool known = url.starts_with("nats://") || url.starts_with("tls://");
  if (url.find('@') != std::string::npos)
    return make_error(ErrorClass::kUsage,
                      "--fleet: expected an address without user and password: other users of this machine can read "
                      "command lines",
                      "put them into a file for --fleet-secrets, or into the environment");
  if (!known || host_of(url).empty())
    return make_error(ErrorClass::kUsage,
                      fmt::format("--fleet: expected the address of a NATS server, found '{}'", sanitize(url)), kForm);
  return {};
}

Result<void> check_access(const Access& access) {
  TCC_TRY_VOID(check_url(access.url));
  constexpr const char* kHint = "give --fleet-secrets FILE, as `tcc fleet serve` writes them; see docs/fleet.md";
  if (access.key.empty())
    return make_error(ErrorClass::kUsage,
                      "expected a key that authenticates the messages of the fleet, found no secret `key`", kHint);
  if (access.key.size() < kLeastKeyBytes)
    return make_error(ErrorClass::kUsage,
                      fmt::format("expected a key for messages of at least {} characters, found one of {}",
                                  kLeastKeyBytes, access.key.size()),
                      "`openssl rand -hex 32` makes one; all of a fleet share it");
  const int ways = (access.user.empty() ? 0 : 1) + (access.token.empty() ? 0 : 1) + (access.nkey.empty() ? 0 : 1) +
                   (access.credentials_file.empty() ? 0 : 1);
  if (ways > 1)
    return make_error(ErrorClass::kUsage,
                      "expected one of user and password, token, nkey and credentials_file, found several of them",
                      "leave the others out of the secrets");
  if (access.nkey.empty() != access.nkey_seed_file.empty())
    return make_error(ErrorClass::kUsage, "expected nkey and nkey_seed_file together, found one of them",
                      "nkey is the public key, nkey_seed_file the file of its seed");
  if (access.certificate_file.empty() != access.key_file.empty())
    return make_error(ErrorClass::kUsage, "expected certificate_file and key_file together, found one of them",
                      "name the certificate of this side and its key");
  return {};
}

}  // namespace tcc::fleet
