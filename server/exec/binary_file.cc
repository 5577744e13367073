// The format of one cached binary:
//
//   8 bytes   "TFBIN02\n"
//   32 bytes  the key
//   8 bytes   length of the description, a tunefarm.worker.v1.Result
//   8 bytes   length of the binary
//   8 bytes   XXH3 of the four above and all that follows
//   then the description and the binary; nothing after them
//
// Numbers are in the machine's byte order: the file never leaves it.
#include <cstring>

#include "server/base/status.h"
#include "server/exec/binary_directory.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {
namespace {

constexpr char kMagic[8] = {'T', 'F', 'B', 'I', 'N', '0', '2', '\n'};

struct Header {
  char magic[8];
  uint8_t key[32];
  uint64_t description_bytes;
  uint64_t binary_bytes;
  uint64_t checksum;
};
static_assert(sizeof(Header) == 64);

uint64_t ChecksumOf(const Header& header, std::string_view body) {
  const uint64_t sums[2] = {Xxh3({reinterpret_cast<const char*>(&header), offsetof(Header, checksum)}), Xxh3(body)};
  return Xxh3({reinterpret_cast<const char*>(sums), sizeof(sums)});
}

}  // namespace

std::shared_ptr<const FileSet> InputsOf(const tunefarm::worker::v1::CompileInputs& inputs) {
  return std::make_shared<const FileSet>(
      FileSet{inputs.packed_paths(), inputs.state_checksum(), inputs.content_checksum()});
}

std::string EncodeBinaryFile(const Digest& key, const CompileResult& result) {
  tunefarm::worker::v1::Result description;
  description.set_outcome(result.outcome);
  description.set_message(result.message);
  description.set_log(result.log);
  *description.mutable_resources() = result.resources;
  description.set_compile_ms(result.compile_ms);
  for (const auto& [entry, symbol] : result.artifact->lowered_names) {
    (*description.mutable_lowered_names())[entry] = symbol;
  }
  for (const std::string& option : result.artifact->compile_options) description.add_compile_options(option);
  if (result.inputs != nullptr) {
    description.mutable_inputs()->set_packed_paths(result.inputs->packed_paths);
    description.mutable_inputs()->set_state_checksum(result.inputs->state);
    description.mutable_inputs()->set_content_checksum(result.inputs->content);
  }
  const std::string text = description.SerializeAsString();
  Header header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::memcpy(header.key, key.bytes.data(), key.bytes.size());
  header.description_bytes = text.size();
  header.binary_bytes = result.artifact->bytes.size();
  std::string file(sizeof(header), '\0');
  file.reserve(sizeof(header) + text.size() + result.artifact->bytes.size());
  file += text;
  file += result.artifact->bytes;
  header.checksum = ChecksumOf(header, std::string_view(file).substr(sizeof(header)));
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

absl::StatusOr<CompileResult> DecodeBinaryFile(const Digest& key, std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) return DataLoss("it has only {} bytes", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::string_view body = bytes.substr(sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return DataLoss("it does not begin as a cached binary");
  if (header.description_bytes > body.size() || header.binary_bytes != body.size() - header.description_bytes) {
    return DataLoss("it should have {} + {} bytes after its header and has {}", header.description_bytes,
                    header.binary_bytes, body.size());
  }
  if (header.checksum != ChecksumOf(header, body)) return DataLoss("its checksum is wrong");
  if (std::memcmp(header.key, key.bytes.data(), key.bytes.size()) != 0) {
    return DataLoss("it holds the binary of another key");
  }
  tunefarm::worker::v1::Result description;
  if (!description.ParseFromArray(body.data(), static_cast<int>(header.description_bytes)) ||
      description.outcome() != tunefarm::v1::OUTCOME_OK) {
    return DataLoss("its description cannot be read");
  }
  CompileResult result;
  result.outcome = description.outcome();
  result.message = std::move(*description.mutable_message());
  result.log = std::move(*description.mutable_log());
  result.resources = std::move(*description.mutable_resources());
  result.compile_ms = description.compile_ms();
  result.from_cache = true;
  if (description.has_inputs()) result.inputs = InputsOf(description.inputs());
  auto artifact = std::make_shared<Artifact>();
  artifact->lowered_names.insert(description.lowered_names().begin(), description.lowered_names().end());
  artifact->compile_options.assign(description.compile_options().begin(), description.compile_options().end());
  artifact->bytes = body.substr(header.description_bytes);
  result.artifact = std::move(artifact);
  return result;
}

}  // namespace tunefarm
