// Entries of other programs' caches by call: who gets whose, and what one answer holds.
#include "server/api/cache_api.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "server/base/hash.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kMiB = 1 << 20;

Principal Token(const std::string& name, const std::string& roles, const std::string& secret = "1") {
  return {name, PrincipalKind::kToken, *ParseRoles(roles), Sha256(name + secret).Hex()};
}

class CacheApiTest : public testing::Test {
 protected:
  absl::Status Put(const Principal& principal, const std::string& key, const std::string& data,
                   const std::string& cache = "triton") {
    v1::PutCacheEntryRequest request;
    request.set_cache(cache);
    request.set_key(key);
    request.set_data(data);
    return api_.PutCacheEntry(principal, request).status();
  }

  v1::GetCacheEntriesResponse Get(const Principal& principal, const std::vector<std::string>& keys) {
    v1::GetCacheEntriesRequest request;
    request.set_cache("triton");
    request.mutable_keys()->Add(keys.begin(), keys.end());
    const auto response = api_.GetCacheEntries(principal, request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::GetCacheEntriesResponse();
  }

  // The data of one key; none: "".
  std::string DataOf(const Principal& principal, const std::string& key) {
    const v1::GetCacheEntriesResponse response = Get(principal, {key});
    return response.entries_size() == 1 ? response.entries(0).data() : "";
  }

  TemporaryDirectory directory_;
  std::unique_ptr<RemoteCache> cache_ = OpenCache(directory_.File("remote_cache"));
  CacheApi api_{cache_.get()};

 private:
  static std::unique_ptr<RemoteCache> OpenCache(const std::string& path) {
    auto cache = RemoteCache::Open({.path = path});
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }
};

TEST_F(CacheApiTest, CallersGetTheirOwnEntriesAndThoseOfAdministrators) {
  const Principal alice = Token("alice", "kernels"), bob = Token("bob", "kernels"), reader = Token("ci", "lookup");
  const Principal root = Token("root", "admin");
  // A token that is called as a socket is.
  const Principal impostor = Token("client.sock", "kernels");
  ASSERT_TRUE(Put(alice, "k", "alice's").ok());
  ASSERT_TRUE(Put(ClientSocket(), "k", "the socket's").ok());
  ASSERT_TRUE(Put(impostor, "k", "the impostor's").ok());
  EXPECT_EQ(DataOf(alice, "k"), "alice's");
  EXPECT_EQ(DataOf(ClientSocket(), "k"), "the socket's");
  EXPECT_EQ(DataOf(impostor, "k"), "the impostor's");
  for (const Principal& other : {bob, reader, root, AdminSocket(), LoopbackListener(), InsecureListener()}) {
    EXPECT_EQ(DataOf(other, "k"), "") << other.name;
  }
  ASSERT_TRUE(Put(AdminSocket(), "k", "for all").ok());
  for (const Principal& other : {bob, reader, root, AdminSocket(), LoopbackListener(), InsecureListener()}) {
    EXPECT_EQ(DataOf(other, "k"), "for all") << other.name;
  }
  EXPECT_EQ(DataOf(alice, "k"), "alice's");
  EXPECT_EQ(DataOf(ClientSocket(), "k"), "the socket's");
}

TEST_F(CacheApiTest, ATokenGetsNoEntriesOfAnEarlierOneWithItsName) {
  const Principal earlier = Token("alice", "kernels", "1"), later = Token("alice", "kernels", "2");
  ASSERT_TRUE(Put(earlier, "k", "the earlier one's").ok());
  EXPECT_EQ(DataOf(later, "k"), "");
  v1::ListCacheEntriesRequest list;
  list.set_cache("triton");
  EXPECT_EQ(api_.ListCacheEntries(later, list)->entries_size(), 0);
  EXPECT_EQ(api_.ListCacheEntries(earlier, list)->entries_size(), 1);
  ASSERT_TRUE(Put(later, "k", "the later one's").ok());
  EXPECT_EQ(DataOf(later, "k"), "the later one's");
  EXPECT_EQ(DataOf(earlier, "k"), "the earlier one's");
}

TEST_F(CacheApiTest, ASessionReadsAsItsMaker) {
  const Principal alice = Token("alice", "kernels");
  Principal session{"alice", PrincipalKind::kSession, *ParseRoles("lookup"), alice.token};
  session.owner = PrincipalKind::kToken;
  ASSERT_TRUE(Put(alice, "k", "alice's").ok());
  EXPECT_EQ(DataOf(session, "k"), "alice's");
  session.token.clear();
  session.owner = PrincipalKind::kSocket;
  EXPECT_EQ(DataOf(session, "k"), "");
}

TEST_F(CacheApiTest, AnAnswerHasTheOrderOfTheKeysAndSaysWhatItHasNoRoomFor) {
  const Principal alice = Token("alice", "kernels");
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(alice, key, std::string(3 * kMiB, key[0])).ok());
  ASSERT_TRUE(Put(alice, "largest", std::string(8 * kMiB, 'l')).ok());
  v1::GetCacheEntriesResponse response = Get(alice, {"b", "none", "a", "c", "largest"});
  ASSERT_EQ(response.entries_size(), 2);
  EXPECT_EQ(response.entries(0).key(), "b");
  EXPECT_EQ(response.entries(1).key(), "a");
  EXPECT_GT(response.entries(0).written_at_ms(), 0);
  EXPECT_THAT(response.keys_left(), ElementsAre("c", "largest"));
  response = Get(alice, {"largest", "none"});
  EXPECT_EQ(response.entries_size(), 1);
  EXPECT_THAT(response.keys_left(), IsEmpty());
}

TEST_F(CacheApiTest, WhatIsNoEntryIsRefusedInOneSentence) {
  const Principal alice = Token("alice", "kernels");
  const auto refused = [](const absl::Status& status, const std::string& sentence) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(ReasonOf(status), "CACHE_ENTRY_INVALID");
    EXPECT_THAT(std::string(MessageOf(status)), HasSubstr(sentence));
  };
  for (const char* cache : {"", "Triton", "../x", "1", "a-b", "a234567890123456789012345678901234"}) {
    refused(Put(alice, "k", "", cache), "is no name of a cache");
  }
  refused(Put(alice, "", ""), "the key has 0 bytes");
  refused(Put(alice, std::string(513, 'k'), ""), "the key has 513 bytes");
  refused(Put(alice, "k", std::string(8 * kMiB + 1, 'a')), "the entry has 8388609 bytes");
  EXPECT_TRUE(Put(alice, std::string(512, 'k'), std::string(8 * kMiB, 'a'), "a_1").ok());
  v1::GetCacheEntriesRequest request;
  request.set_cache("triton");
  refused(api_.GetCacheEntries(alice, request).status(), "0 keys; it has 1 to 100");
  for (int i = 0; i < 101; ++i) request.add_keys("k");
  refused(api_.GetCacheEntries(alice, request).status(), "101 keys");
}

TEST_F(CacheApiTest, AListHasPagesOfTheCallersEntries) {
  const Principal alice = Token("alice", "kernels");
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(alice, key, key).ok());
  ASSERT_TRUE(Put(AdminSocket(), "for all", "x").ok());
  ASSERT_TRUE(Put(Token("bob", "kernels"), "bob's", "x").ok());
  v1::ListCacheEntriesRequest request;
  request.set_cache("triton");
  request.set_page_size(3);
  auto page = api_.ListCacheEntries(alice, request);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->entries_size(), 3);
  std::vector<std::string> keys;
  for (const v1::CacheEntry& entry : page->entries()) keys.push_back(entry.key());
  request.set_page_token(page->next_page_token());
  page = api_.ListCacheEntries(alice, request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->next_page_token(), "");
  for (const v1::CacheEntry& entry : page->entries()) keys.push_back(entry.key());
  EXPECT_THAT(keys, testing::UnorderedElementsAre("a", "b", "c", "for all"));
  request.set_cache("helion");
  EXPECT_EQ(ReasonOf(api_.ListCacheEntries(alice, request).status()), "PAGE_TOKEN_INVALID");
}

TEST(CacheApiWithoutCacheTest, ADaemonMayKeepNoEntries) {
  CacheApi api(nullptr);
  v1::GetCacheEntriesRequest get;
  get.set_cache("triton");
  get.add_keys("k");
  const auto found = api.GetCacheEntries(ClientSocket(), get);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->entries_size(), 0);
  v1::PutCacheEntryRequest put;
  put.set_cache("triton");
  put.set_key("k");
  const absl::Status refused = api.PutCacheEntry(ClientSocket(), put).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), "CACHE_DISABLED");
  v1::ListCacheEntriesRequest list;
  list.set_cache("triton");
  EXPECT_TRUE(api.ListCacheEntries(ClientSocket(), list).ok());
}

}  // namespace
}  // namespace tunefarm
