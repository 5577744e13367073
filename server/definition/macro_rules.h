// What can be a macro of the sources: names and values that are known when they are compiled become macros, NAME=value,
// and a string makes a second one, NAME_value=1. Private to this folder; pure, but for what is noted in the draft.
//
// Python modules are given names and values as they are, so that only the form of a string's text is a rule for them.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/definition/plan_draft.h"

namespace tunefarm::definition {

// What a name already is to the sources, if a macro of that name would break them: "a word of C++". Empty if it would
// not.
std::string_view WhyNoMacroName(std::string_view name, bool is_cuda);

// Whether the text of a string has the form that every string of a definition needs: [A-Za-z0-9_.+-], 1 to 64 bytes.
bool IsToken(std::string_view text);

// Why a macro cannot have the text as its value: it is no token, or neither a word of [A-Za-z0-9_] nor a number of C++
// ("-1", "128.0", "1e-3f"). One sentence; empty if it can.
std::string WhyNoMacroValue(std::string_view token);

// The macro that is 1 when the string `name` has this value: "NAME_token", with '_' for what cannot be in a macro's
// name.
std::string TokenMacro(std::string_view name, std::string_view token);

// Whether a string is baked into a binary, and so must do as a macro's value.
enum class Baked { kNo, kYes, kUnlessRun };  // kUnlessRun: yes, but bind: RUN would do

// An error of the field at `path` for a string that it cannot have.
absl::Status CheckStringValue(const std::string& path, std::string_view text, Baked baked);

// Notes the texts of derived values that cannot be macros, for the default problem: of the default config, and of those
// that differ from it in one parameter and keep the constraints. Others are found when their config is compiled. Needs
// a draft whose dims, parameters, derived values and constraints have no error.
void CheckDerivedTexts(PlanDraft* draft);

}  // namespace tunefarm::definition
