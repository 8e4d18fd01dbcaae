// Pools as gzip files: a fifth of the size, for keeping. They are read as a whole and do not grow. Private to the room.
#pragma once

#include <string>
#include <string_view>

#include "tcc/support/result.h"

namespace tcc::data {

bool is_packed(std::string_view bytes);
std::string pack(std::string_view bytes);
// At most `limit` bytes come out. Errors (input): damaged, cut off, more than the limit. `name`: of the file.
Result<std::string> unpack(std::string_view bytes, size_t limit, const std::string& name);

}  // namespace tcc::data
