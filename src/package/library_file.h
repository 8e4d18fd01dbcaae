// A built library as a file: its metadata and its checksum, read without loading it. Nothing of the file is executed.
//
// The section .tcc.metadata holds kMetadataMagic (8 bytes), the checksum (8 bytes, little-endian) and the metadata as
// JSON. The checksum is that of the segments and their headers, without the ELF header and with its own eight bytes as
// zeros; `strip` leaves it valid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tcc/support/result.h"

namespace tcc::package {

inline constexpr std::string_view kMetadataSection = ".tcc.metadata";
inline constexpr std::string_view kMetadataMagic = "TCCMETA1";
inline constexpr uint64_t kMetadataHeaderBytes = 16;

// What the section holds before the library is sealed.
std::string metadata_section(const std::string& json);
// Writes the checksum of a freshly linked library into its section.
Result<void> seal_library(const std::string& path);

// The metadata, after these checks: the file is a shared library for x86-64, it is as long as its headers say, and its
// bytes have the checksum. Nothing where it has no section .tcc.metadata: another program or an older tcc made it.
Result<std::optional<std::string>> check_library(const std::string& path);

// What is wrong with the metadata's structure: a member of another type than make_metadata() writes; "" = nothing.
std::string metadata_problem(const std::string& text);

}  // namespace tcc::package
