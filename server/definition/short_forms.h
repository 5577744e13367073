// The short forms of kernel.pbtxt, written out for protobuf's parser. Private to this folder; pure.
//
//   data_type: F32            data_type: DATA_TYPE_F32 (any enum, in upper or lower case; language: HOST is HOST_CXX)
//   default_value: 2048       default_value { int_value: 2048 } (each v1.Value, also in lists)
//   values: [32, 64]          values { ints: [32, 64] } (v1.ValueList: ints, doubles, bools or strings)
//   grid: 64                  grid: "64" (any string field)
//   file: "x.npy"             file { path: "x.npy" } (each v1.DataFile)
//
// client/python/tunefarm/_short_forms.py does the same for the Python client; tests/data/definitions/short_forms has
// the cases that both must pass.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "server/definition/edited_text.h"

namespace tunefarm::definition {

// The text for the parser, and where it differs from the original.
struct ExpandedText : EditedText {
  struct Error {
    size_t offset = 0;  // in the original
    absl::Status status;
  };

  // Unknown fields and enum values, and bare values of the wrong kind, in the order of the original. The text is not to
  // be parsed where there are any.
  std::vector<Error> errors;
};

// `text` is a message of type `root`. What is no well-formed text is left to protobuf's parser: from there on nothing
// is changed.
ExpandedText ExpandShortForms(std::string_view text, const google::protobuf::Descriptor* root);

}  // namespace tunefarm::definition
