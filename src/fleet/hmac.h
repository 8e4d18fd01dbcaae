// HMAC-SHA-256 (RFC 2104, FIPS 180-4) by OpenSSL's libcrypto. Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tcc::fleet {

using Digest = std::array<uint8_t, 32>;

// Of the parts one after another.
Digest hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts);
// Takes the same time wherever the two differ.
bool equal_digests(const Digest& a, const Digest& b);

}  // namespace tcc::fleet
