#include "data/packed.h"

#include <zlib.h>

#include "tcc/support/check.h"
#include "tcc/support/text.h"

namespace tcc::data {
namespace {

constexpr int kGzip = 15 + 16;  // the largest window, with the frame of gzip
constexpr size_t kChunkBytes = size_t{1} << 16;

Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

bool is_packed(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

std::string pack(std::string_view bytes) {
  z_stream stream = {};
  TCC_CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = bytes_of(bytes), stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = bytes_of(out), stream.avail_out = static_cast<uInt>(out.size());
  TCC_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "the bound holds the whole");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Result<std::string> unpack(std::string_view bytes, size_t limit, const std::string& name) {
  z_stream stream = {};
  TCC_CHECK(inflateInit2(&stream, kGzip) == Z_OK);
  stream.next_in = bytes_of(bytes), stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int state = Z_OK;
  while (state == Z_OK && out.size() <= limit) {
    const size_t at = out.size();
    out.resize(at + kChunkBytes);
    stream.next_out = bytes_of(out) + at, stream.avail_out = kChunkBytes;
    state = inflate(&stream, Z_NO_FLUSH);
    out.resize(at + kChunkBytes - stream.avail_out);
  }
  const size_t rest = stream.avail_in;
  inflateEnd(&stream);
  if (out.size() > limit)
    return make_error(
        ErrorClass::kInput,
        fmt::format("'{}': expected a packed pool of at most {} bytes, found more", sanitize(name), limit),
        "split the pool with `tcc dataset split` before it is packed");
  if (state != Z_STREAM_END || rest != 0)
    return make_error(ErrorClass::kInput, fmt::format("'{}': the packed pool is damaged or cut off", sanitize(name)),
                      "copy the file again, or pack its pool again with `tcc dataset pack`");
  return out;
}

}  // namespace tcc::data
