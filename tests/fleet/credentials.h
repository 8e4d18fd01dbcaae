// Credentials of NATS users as `nsc` makes them: NKeys, which are Ed25519 keys in base 32, and JSON Web Tokens that
// they sign. An operator signs accounts, and an account signs users.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fleet_test {

// `bits` of each character: 5 for base 32, 6 for base64url. Without padding.
inline std::string encode(std::string_view bytes, int bits, std::string_view alphabet) {
  std::string text;
  unsigned pending = 0;
  int held = 0;
  for (const char c : bytes) {
    pending = pending << 8 | static_cast<unsigned char>(c);
    for (held += 8; held >= bits; held -= bits) text += alphabet[pending >> (held - bits) & ((1u << bits) - 1)];
  }
  if (held > 0) text += alphabet[pending << (bits - held) & ((1u << bits) - 1)];
  return text;
}
inline std::string base64url(std::string_view bytes) {
  return encode(bytes, 6, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
}
// Base 32 of the bytes and their checksum (CRC-16/XMODEM), its low byte first.
inline std::string with_checksum(std::string bytes) {
  unsigned crc = 0;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int i = 0; i < 8; ++i) crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  bytes += static_cast<char>(crc & 0xff), bytes += static_cast<char>(crc >> 8);
  return encode(bytes, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
}

// A role's first byte makes the first letter of its public keys: O, A or U.
enum class NKeyRole : unsigned char { kOperator = 14 << 3, kAccount = 0, kUser = 20 << 3 };

class NKey {
 public:
  // The seed is 32 times `letter`: for tests alone.
  NKey(NKeyRole role, char letter)
      : role_(static_cast<unsigned char>(role)),
        seed_(32, letter),
        key_(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                          reinterpret_cast<const unsigned char*>(seed_.data()), seed_.size()),
             EVP_PKEY_free) {
    REQUIRE(key_ != nullptr);
  }
  std::string public_key() const {
    std::array<unsigned char, 32> bytes;
    size_t size = bytes.size();
    REQUIRE(EVP_PKEY_get_raw_public_key(key_.get(), bytes.data(), &size) == 1);
    return with_checksum(static_cast<char>(role_) + std::string(bytes.begin(), bytes.end()));
  }
  // Its first five bits say "seed", the next eight are the role's.
  std::string seed() const {
    const unsigned prefix = 18 << 11 | role_ << 3;
    return with_checksum(std::string{static_cast<char>(prefix >> 8), static_cast<char>(prefix & 0xff)} + seed_);
  }
  // What `subject` is and may do, said by this key. `claims` has the type, and may have "exp".
  std::string token(const NKey& subject, const nlohmann::json& nats, const nlohmann::json& more = {}) const {
    nlohmann::json claims = {{"iss", public_key()}, {"sub", subject.public_key()}, {"name", "test"}, {"iat", 1}};
    claims["nats"] = nats;
    claims["nats"]["version"] = 2;
    if (!more.is_null()) claims.update(more);
    const std::string text = base64url(R"({"typ":"JWT","alg":"ed25519-nkey"})") + "." + base64url(claims.dump());
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    std::array<unsigned char, 64> signature;
    size_t size = signature.size();
    REQUIRE(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1);
    REQUIRE(EVP_DigestSign(context.get(), signature.data(), &size, reinterpret_cast<const unsigned char*>(text.data()),
                           text.size()) == 1);
    return text + "." + base64url(std::string(signature.begin(), signature.end()));
  }

 private:
  unsigned char role_;
  std::string seed_;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
};

inline std::string credentials_text(const std::string& token, const std::string& seed) {
  return "-----BEGIN NATS USER JWT-----\n" + token + "\n------END NATS USER JWT------\n\n" +
         "-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------\n";
}

// An operator, an account with JetStream and the account of the server itself.
class TestOperator {
 public:
  // All of a server's configuration but its address.
  std::string configuration(const std::string& store_folder) const {
    return fmt::format(
        "jetstream {{ store_dir: \"{}\" }}\noperator: {}\nsystem_account: {}\nresolver: MEMORY\n"
        "resolver_preload: {{ {}: {}, {}: {} }}\n",
        store_folder, operator_.token(operator_, {{"type", "operator"}}), system_.public_key(), system_.public_key(),
        account_token(system_, 0), account.public_key(), account_token(account, -1));
  }
  // A user's credentials. `issuer`: the account that the user is of.
  static std::string user(const NKey& issuer, const nlohmann::json& more = {}) {
    const NKey key(NKeyRole::kUser, 'u');
    const nlohmann::json nats = {{"type", "user"}, {"subs", -1}, {"data", -1}, {"payload", -1}};
    return credentials_text(issuer.token(key, nats, more), key.seed());
  }
  NKey account{NKeyRole::kAccount, 'a'};

 private:
  // `storage`: of JetStream; -1: without limit, 0: none.
  std::string account_token(const NKey& of, int storage) const {
    nlohmann::json limits = {{"disk_storage", storage}, {"mem_storage", storage}, {"wildcards", true}};
    for (const char* name : {"subs", "data", "payload", "imports", "exports", "conn", "leaf", "streams", "consumer"})
      limits[name] = -1;
    return operator_.token(of, {{"type", "account"}, {"limits", limits}});
  }
  NKey operator_{NKeyRole::kOperator, 'o'}, system_{NKeyRole::kAccount, 's'};
};

}  // namespace fleet_test
