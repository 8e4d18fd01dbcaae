#include "fleet/hmac.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <memory>

#include "tcc/support/check.h"

namespace tcc::fleet {

Digest hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  const std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr), EVP_MAC_free);
  TCC_CHECK(mac != nullptr, "libcrypto has no HMAC");
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(EVP_MAC_CTX_new(mac.get()), EVP_MAC_CTX_free);
  char hash[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, hash, 0),
                                   OSSL_PARAM_construct_end()};
  // A key may be empty, but not absent.
  static constexpr unsigned char kNothing = 0;
  const auto* bytes = key.empty() ? &kNothing : reinterpret_cast<const unsigned char*>(key.data());
  TCC_CHECK(context != nullptr && EVP_MAC_init(context.get(), bytes, key.size(), parameters) == 1,
            "libcrypto cannot begin an HMAC");
  for (const std::string_view part : parts)
    TCC_CHECK(EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(part.data()), part.size()) == 1,
              "libcrypto cannot go on with an HMAC");
  Digest digest;
  size_t length = 0;
  TCC_CHECK(EVP_MAC_final(context.get(), digest.data(), &length, digest.size()) == 1 && length == digest.size(),
            "libcrypto gave {} bytes of an HMAC", length);
  return digest;
}

bool equal_digests(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tcc::fleet
