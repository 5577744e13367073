// The compiled-in defaults that concern one question, ready to be found. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cpp/answer_table.h"
#include "tunefarm/client/defaults.h"
#include "tunefarm/client/question.h"

namespace tunefarm::client {

// A copy of a DefaultConfig.
struct OwnDefault {
  std::string kernel, device;
  ValueMap dims;
  Config config;
};

// InvalidArgument where a table has no name for something, or names a dim twice.
Result<std::vector<OwnDefault>> CopyDefaults(const std::vector<DefaultTable>& tables);

// The texts that name the device of a question: as it was asked for, and its class's id and name once they are known.
using DeviceNames = std::vector<std::string>;

class DefaultAnswers {
 public:
  DefaultAnswers(const std::vector<OwnDefault>& defaults, const QuestionSpec& spec, const std::string& display_name,
                 const DeviceNames& device);

  // Null: none. Allocates nothing.
  const StoredAnswer* Find(const int64_t* key) const;

 private:
  struct Partial {
    std::vector<std::pair<size_t, int64_t>> conditions;  // place among the varying dims, value
    StoredAnswer stored;
  };

  AnswerTable complete_;          // those that say all varying dims
  std::vector<Partial> partial_;  // the others, those with the most dims first
};

}  // namespace tunefarm::client
