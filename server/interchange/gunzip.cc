#include "server/interchange/gunzip.h"

#include <zlib.h>

#include <algorithm>

#include "server/base/status.h"
#include "server/interchange/json_document.h"

namespace tunefarm::interchange {
namespace {

constexpr size_t kPiece = size_t{256} << 10;
constexpr int kGzipOnly = 15 + 16;

// Ends the stream however the function is left.
class Inflater {
 public:
  Inflater() { is_ready_ = inflateInit2(&stream_, kGzipOnly) == Z_OK; }
  ~Inflater() {
    if (is_ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  bool is_ready() const { return is_ready_; }
  z_stream* stream() { return &stream_; }

 private:
  z_stream stream_{};
  bool is_ready_ = false;
};

absl::Status Damaged(std::string_view file_name, size_t offset, std::string_view what) {
  return WithReason(InvalidArgument("{}: byte {}: {}", file_name, offset, what), kBadJson);
}

}  // namespace

bool IsGzip(std::string_view bytes) { return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b'; }

absl::StatusOr<std::string> Gunzip(std::string_view bytes, std::string_view file_name, uint64_t bytes_max) {
  Inflater inflater;
  if (!inflater.is_ready()) return Internal("zlib cannot be started");
  z_stream* const stream = inflater.stream();
  std::string text;
  size_t taken = 0;  // of `bytes`
  while (true) {
    // zlib counts in 32 bits.
    const size_t offered = std::min(bytes.size() - taken, kPiece);
    stream->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream->avail_in = static_cast<uInt>(offered);
    const size_t have = text.size();
    text.resize(have + kPiece);
    stream->next_out = reinterpret_cast<Bytef*>(text.data() + have);
    stream->avail_out = static_cast<uInt>(kPiece);
    const int result = inflate(stream, Z_NO_FLUSH);
    taken += offered - stream->avail_in;
    text.resize(have + kPiece - stream->avail_out);
    if (text.size() > bytes_max) {
      return Damaged(
          file_name, taken,
          fmt::format("unpacked, the file has more than {} bytes, which are the most that are read", bytes_max));
    }
    if (result == Z_STREAM_END) {
      if (taken == bytes.size()) return text;
      if (!IsGzip(bytes.substr(taken)))
        return Damaged(file_name, taken, "there are bytes behind the end of the gzip data");
      inflateReset(stream);
      continue;
    }
    if (result == Z_BUF_ERROR || (result == Z_OK && taken == bytes.size() && stream->avail_out != 0)) {
      return Damaged(file_name, taken, "the gzip data ends too early");
    }
    if (result != Z_OK) {
      return Damaged(
          file_name, taken,
          fmt::format("the gzip data is damaged ({})", stream->msg != nullptr ? stream->msg : "unknown error"));
    }
  }
}

absl::StatusOr<std::string> PlainText(std::string bytes, std::string_view file_name, uint64_t bytes_max) {
  if (!IsGzip(bytes)) return bytes;
  return Gunzip(bytes, file_name, bytes_max);
}

}  // namespace tunefarm::interchange
