#include "tests/unit/jobs/stopping_rule_test.cc"
#include "tests/unit/jobs/submit_test.cc"
