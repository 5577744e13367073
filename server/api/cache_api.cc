#include "server/api/cache_api.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/resource_names.h"
#include "server/store/page_token.h"

namespace tunefarm {
namespace {

constexpr size_t kNameBytesMax = 32;
constexpr size_t kKeyBytesMax = 512;
constexpr int kKeysMax = 100;
// Of the data in one answer: less than the message size that clients accept.
constexpr size_t kAnswerBytesMax = RemoteCache::kEntryBytesMax;

// The owner of entries that administrators have stored. No principal has an empty name.
constexpr char kEverybody[] = "";

// Names of certificates and tokens have no ':', so that no two identities are one owner. A token is told apart from
// earlier ones with its name, which are revoked or have expired: its holder may be another person.
std::string OwnerOf(const Principal& principal) {
  if (principal.Has(Right::kAdmin)) return kEverybody;
  if (principal.IsOfSocket()) return ":" + principal.name;
  return principal.token.empty() ? principal.name : principal.name + ":" + principal.token;
}

// Whose entries the caller gets, its own first.
std::vector<std::string> OwnersFor(const Principal& principal) {
  const std::string owner = OwnerOf(principal);
  return owner == kEverybody ? std::vector<std::string>{owner} : std::vector<std::string>{owner, kEverybody};
}

absl::Status Invalid(const absl::Status& status) { return WithReason(status, "CACHE_ENTRY_INVALID"); }

absl::Status CheckName(std::string_view name) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_good = [&](char c) { return is_lower(c) || (c >= '0' && c <= '9') || c == '_'; };
  if (!name.empty() && name.size() <= kNameBytesMax && is_lower(name[0]) &&
      std::all_of(name.begin(), name.end(), is_good)) {
    return absl::OkStatus();
  }
  return Invalid(InvalidArgument(
      "'{}' is no name of a cache; it has 1 to {} lower-case letters, digits and '_', and begins with a letter",
      name.substr(0, 80), kNameBytesMax));
}

absl::Status CheckKey(std::string_view key) {
  if (!key.empty() && key.size() <= kKeyBytesMax) return absl::OkStatus();
  return Invalid(InvalidArgument("the key has {} bytes; one has 1 to {}", key.size(), kKeyBytesMax));
}

void Fill(RemoteCache::Entry entry, v1::CacheEntry* message) {
  message->set_key(std::move(entry.key));
  message->set_data(std::move(entry.data));
  message->set_written_at_ms(entry.written_ms);
}

}  // namespace

absl::StatusOr<v1::GetCacheEntriesResponse> CacheApi::GetCacheEntries(const Principal& principal,
                                                                      const v1::GetCacheEntriesRequest& request) {
  RETURN_IF_ERROR(CheckName(request.cache()));
  if (request.keys_size() == 0 || request.keys_size() > kKeysMax) {
    return Invalid(InvalidArgument("the request has {} keys; it has 1 to {}", request.keys_size(), kKeysMax));
  }
  for (const std::string& key : request.keys()) RETURN_IF_ERROR(CheckKey(key));
  v1::GetCacheEntriesResponse response;
  if (cache_ == nullptr) return response;
  const std::vector<std::string> owners = OwnersFor(principal);
  size_t bytes = 0;
  for (int i = 0; i < request.keys_size(); ++i) {
    std::optional<RemoteCache::Entry> entry = cache_->Find(owners, request.cache(), request.keys(i));
    if (!entry.has_value()) continue;
    bytes += entry->data.size();
    if (bytes > kAnswerBytesMax) {
      response.mutable_keys_left()->Add(request.keys().begin() + i, request.keys().end());
      break;
    }
    Fill(*std::move(entry), response.add_entries());
  }
  return response;
}

absl::StatusOr<v1::PutCacheEntryResponse> CacheApi::PutCacheEntry(const Principal& principal,
                                                                  const v1::PutCacheEntryRequest& request) {
  RETURN_IF_ERROR(CheckName(request.cache()));
  RETURN_IF_ERROR(CheckKey(request.key()));
  if (cache_ == nullptr) {
    return WithReason(FailedPrecondition("this daemon keeps no cache entries (max_remote_cache_bytes is 0)"),
                      "CACHE_DISABLED");
  }
  const absl::Status put = cache_->Put({OwnerOf(principal), request.cache(), request.key()}, request.data());
  if (absl::IsInvalidArgument(put)) return Invalid(put);
  if (absl::IsResourceExhausted(put)) return WithReason(put, "CACHE_FULL");
  RETURN_IF_ERROR(put);
  return v1::PutCacheEntryResponse();
}

absl::StatusOr<v1::ListCacheEntriesResponse> CacheApi::ListCacheEntries(const Principal& principal,
                                                                        const v1::ListCacheEntriesRequest& request) {
  RETURN_IF_ERROR(CheckName(request.cache()));
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  const std::string query = "cache entries of " + request.cache();
  ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> key, DecodePageToken(query, request.page_token(), 2));
  v1::ListCacheEntriesResponse response;
  if (cache_ == nullptr) return response;
  std::optional<RemoteCache::Position> after;
  if (key.has_value()) after = RemoteCache::Position{(*key)[0], (*key)[1]};
  RemoteCache::Page page =
      cache_->List(OwnersFor(principal), request.cache(), static_cast<size_t>(size), kAnswerBytesMax, after);
  for (RemoteCache::Entry& entry : page.entries) Fill(std::move(entry), response.add_entries());
  if (page.last.has_value()) {
    response.set_next_page_token(EncodePageToken(query, {page.last->written_ms, page.last->tie}));
  }
  return response;
}

}  // namespace tunefarm
