#include "server/base/status.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/cord.h"

namespace tunefarm {
namespace {

constexpr char kReasonUrl[] = "tunefarm/reason";
constexpr std::string_view kMetadataUrl = "tunefarm/metadata/";  // and the name

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

absl::StatusCode CodeOfErrno(int error) {
  switch (error) {
    case ENOENT:
    case ESRCH:
    case ENODEV:
    case ENXIO:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EFBIG:
    case EMLINK:
    case ENOBUFS:
      return absl::StatusCode::kResourceExhausted;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
    case ELOOP:
    case E2BIG:
    case EMSGSIZE:
      return absl::StatusCode::kInvalidArgument;
    case ENOTDIR:
    case ENOTEMPTY:
    case EXDEV:
    case ENOTCONN:
    case EADDRINUSE:
    case ENOEXEC:
    case ECHILD:
      return absl::StatusCode::kFailedPrecondition;
    case EAGAIN:
    case EINTR:
    case EBUSY:
    case ETXTBSY:
    case EPIPE:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
      return absl::StatusCode::kUnavailable;
    case ETIMEDOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case ECANCELED:
      return absl::StatusCode::kCancelled;
    case ENOSYS:
    case EOPNOTSUPP:
      return absl::StatusCode::kUnimplemented;
    case ERANGE:
    case EOVERFLOW:
      return absl::StatusCode::kOutOfRange;
    case EIO:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

namespace internal {

absl::Status MakeStatus(absl::StatusCode code, fmt::string_view format, fmt::format_args args) {
  return absl::Status(code, fmt::vformat(format, args));
}

absl::Status MakeAnnotated(const absl::Status& status, fmt::string_view format, fmt::format_args args) {
  const std::string message = fmt::format("{}: {}", fmt::vformat(format, args), MessageOf(status));
  absl::Status annotated(status.code(), message);
  status.ForEachPayload(
      [&annotated](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

absl::Status MakeErrnoStatus(int error, fmt::string_view format, fmt::format_args args) {
  const char* description = strerrordesc_np(error);
  const std::string text = description != nullptr ? std::string(description) : fmt::format("unknown error {}", error);
  return absl::Status(CodeOfErrno(error), fmt::format("{}: {}", fmt::vformat(format, args), text));
}

std::string StatusText(const absl::Status& status) {
  std::string text = absl::StatusCodeToString(status.code());
  if (!status.message().empty()) text += fmt::format(": {}", MessageOf(status));
  return text;
}

}  // namespace internal

std::string_view MessageOf(const absl::Status& status) {
  const absl::string_view message = status.message();
  return {message.data(), message.size()};
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  if (!status.ok()) status.SetPayload(kReasonUrl, absl::Cord(ToAbsl(reason)));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

absl::Status WithMetadata(absl::Status status, std::string_view name, std::string_view value) {
  if (!status.ok()) status.SetPayload(ToAbsl(fmt::format("{}{}", kMetadataUrl, name)), absl::Cord(ToAbsl(value)));
  return status;
}

std::map<std::string, std::string> MetadataOf(const absl::Status& status) {
  std::map<std::string, std::string> metadata;
  status.ForEachPayload([&metadata](absl::string_view url, const absl::Cord& payload) {
    const std::string_view name(url.data(), url.size());
    if (name.substr(0, kMetadataUrl.size()) != kMetadataUrl) return;
    metadata[std::string(name.substr(kMetadataUrl.size()))] = std::string(payload);
  });
  return metadata;
}

}  // namespace tunefarm
