#include "client/cpp/answer_table.h"

#include <utility>

namespace tunefarm::client {
namespace {

constexpr size_t kPlacesMin = 16;
// Replaced answers that a table may hold on to beside as many as it finds.
constexpr size_t kFormerMax = 1024;

const StoredAnswer kRemoved = {};

uint64_t AsWord(const StoredAnswer* answer) { return reinterpret_cast<uint64_t>(answer); }
const StoredAnswer* AsAnswer(uint64_t word) { return reinterpret_cast<const StoredAnswer*>(word); }

}  // namespace

AnswerTable::AnswerTable(size_t dims, size_t expected) : dims_(dims), stride_(kKey + dims), places_(kPlacesMin) {
  while (places_ / 2 <= expected) places_ *= 2;
  words_ = std::make_unique<Word[]>(places_ * stride_);
  current_.resize(places_);
}

uint64_t AnswerTable::Hash(const int64_t* key, size_t dims) {
  // Multiply and fold: all bits of each value reach all bits of the hash. Not for hostile keys: they are the caller's.
  uint64_t hash = 0x9E3779B97F4A7C15;
  for (size_t i = 0; i < dims; ++i) {
    const auto product = static_cast<unsigned __int128>(hash ^ static_cast<uint64_t>(key[i])) * 0xD6E8FEB86659FD93;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ (i + 1);
  }
  return hash;
}

bool AnswerTable::IsAt(const Word* place, uint64_t hash, const int64_t* key) const {
  if (place[kHash].load(std::memory_order_relaxed) != hash) return false;
  for (size_t i = 0; i < dims_; ++i) {
    if (place[kKey + i].load(std::memory_order_relaxed) != static_cast<uint64_t>(key[i])) return false;
  }
  return true;
}

const StoredAnswer* AnswerTable::Find(const int64_t* key) const {
  const uint64_t hash = Hash(key, dims_);
  const size_t mask = places_ - 1;
  for (size_t index = hash & mask;; index = (index + 1) & mask) {
    const Word* const place = &words_[index * stride_];
    const uint64_t word = place[kPointer].load(std::memory_order_acquire);
    if (word == 0) return nullptr;
    if (!IsAt(place, hash, key)) continue;
    return word == AsWord(&kRemoved) ? nullptr : AsAnswer(word);
  }
}

size_t AnswerTable::PlaceOf(const int64_t* key, uint64_t hash) const {
  const size_t mask = places_ - 1;
  for (size_t index = hash & mask;; index = (index + 1) & mask) {
    const Word* const place = &words_[index * stride_];
    if (place[kPointer].load(std::memory_order_relaxed) == 0 || IsAt(place, hash, key)) return index;
  }
}

void AnswerTable::Put(const int64_t* key, std::shared_ptr<const StoredAnswer> answer) {
  const uint64_t hash = Hash(key, dims_);
  const size_t index = PlaceOf(key, hash);
  Word* const place = &words_[index * stride_];
  if (place[kPointer].load(std::memory_order_relaxed) == 0) {
    place[kHash].store(hash, std::memory_order_relaxed);
    for (size_t i = 0; i < dims_; ++i) place[kKey + i].store(static_cast<uint64_t>(key[i]), std::memory_order_relaxed);
    ++taken_;
  }
  if (current_[index] == nullptr) {
    ++live_;
  } else {
    former_.push_back(std::move(current_[index]));
  }
  place[kPointer].store(AsWord(answer.get()), std::memory_order_release);
  current_[index] = std::move(answer);
}

bool AnswerTable::Remove(const int64_t* key) {
  const size_t index = PlaceOf(key, Hash(key, dims_));
  if (current_[index] == nullptr) return false;
  words_[index * stride_ + kPointer].store(AsWord(&kRemoved), std::memory_order_release);
  former_.push_back(std::move(current_[index]));
  current_[index] = nullptr;
  --live_;
  return true;
}

bool AnswerTable::IsWorn() const { return taken_ >= places_ / 2 || former_.size() > kFormerMax + live_; }

std::unique_ptr<AnswerTable> AnswerTable::Rebuilt(size_t more) const {
  auto table = std::make_unique<AnswerTable>(dims_, live_ + more);
  std::vector<int64_t> key(dims_);
  for (size_t index = 0; index < places_; ++index) {
    if (current_[index] == nullptr) continue;
    for (size_t i = 0; i < dims_; ++i) {
      key[i] = static_cast<int64_t>(words_[index * stride_ + kKey + i].load(std::memory_order_relaxed));
    }
    table->Put(key.data(), current_[index]);
  }
  return table;
}

}  // namespace tunefarm::client
