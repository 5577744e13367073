"""What class_shape.py counts, and what it does not."""

import unittest

import class_shape

HEADER = '''
#define OLD_CLASS class Ghost { void A(); };
namespace tunefarm {
// class Commented { void A(); };
class Base { public: virtual int Of(std::function<void(int)> f) = 0; };
class Machine : public Base, private Other<int, long> {
 public:
  struct Options {
    int size = 1;
    std::function<void(int)> hook = nullptr;
    int Size() const { return size; }
  };
  explicit Machine(Options options);
  ~Machine();
  int Of(std::function<void(int)> f) override { return call(f); }

 private:
  enum class State { kA, kB };
  void Step() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::map<int, std::pair<int, int>> Rows(const char* text = ";{(");
  bool operator<(const Machine& other) const;
  friend void Print(const Machine&);
  using Call = std::function<void(int)>;
  std::function<void(int)> hook_;
  int rows_ GUARDED_BY(mutex_) = Count(3);
  std::atomic<int> count_{Initial(2)};
};
}
'''


def methods_of(text, name):
    return next(methods for found, _, methods in class_shape.classes(text) if found == name)


class ClassShape(unittest.TestCase):
    def test_methods_are_told_from_fields_types_and_constructors(self):
        methods = methods_of(HEADER, "Machine")
        self.assertEqual(len(methods["private"]), 3, methods["private"])
        self.assertEqual(len(methods["public"]), 1, methods["public"])
        self.assertEqual(len(methods_of(HEADER, "Options")["public"]), 1)
        self.assertNotIn("Ghost", [name for name, *_ in class_shape.classes(HEADER)])
        self.assertNotIn("Commented", [name for name, *_ in class_shape.classes(HEADER)])

    def test_too_many_private_methods(self):
        header = "class Big {\n private:\n" + "".join(f"  void M{i}();\n" for i in range(26)) + "};\n"
        found = class_shape.check({"server/jobs/big.h": header}, {})
        self.assertEqual(len(found), 1, found)
        self.assertIn("class Big has 26 private methods", found[0])
        self.assertEqual(class_shape.check({"server/jobs/big.h": header}, {("server/jobs", "Big"): "a reason"}), [])
        self.assertEqual(class_shape.check({"server/jobs/big.h": header.replace("  void M0();\n", "")}, {}), [])

    def test_a_facet_of_the_store_with_sixteen_methods(self):
        methods = "".join(f"  virtual absl::StatusOr<std::vector<Row>> M{i}(int64_t id) = 0;\n" for i in range(16))
        header = "class JobStore {\n public:\n  virtual ~JobStore() = default;\n  static constexpr int kMax = 1;\n" + methods + "};\n"
        found = class_shape.check({"server/store/job_store.h": header}, {})
        self.assertEqual(len(found), 1, found)
        self.assertIn("server/store/job_store.h:1: facet JobStore of the store has 16 methods", found[0])
        fifteen = header.replace("  virtual absl::StatusOr<std::vector<Row>> M0(int64_t id) = 0;\n", "")
        self.assertEqual(class_shape.check({"server/store/job_store.h": fifteen}, {}), [])
        self.assertEqual(class_shape.check({"server/search/strategy.h": header}, {}), [], "only facets of the store")

    def test_members_in_three_files(self):
        part = "namespace tunefarm {\nabsl::StatusOr<std::vector<int>> Wide::Part%d(int x) const {\n  return Other::Call(x);\n}\n}\n"
        texts = {f"server/jobs/part{i}.cc": part % i for i in range(3)}
        found = class_shape.check(texts, {})
        self.assertEqual(len(found), 1, found)
        self.assertIn("members of Wide are defined in 3 files (part0.cc, part1.cc, part2.cc)", found[0])
        del texts["server/jobs/part2.cc"]
        self.assertEqual(class_shape.check(texts, {}), [])

    def test_classes_of_one_name_in_two_folders_are_two(self):
        text = "void Store::Open() {\n}\n"
        texts = {f"server/store/{folder}/open{i}.cc": text for folder in ("sqlite", "postgres") for i in range(2)}
        self.assertEqual(class_shape.check(texts, {}), [])

    def test_a_nested_class_counts_for_itself(self):
        texts = {f"server/jobs/n{i}.cc": f"void Outer::In{i}::Run() {{\n}}\n" for i in range(3)}
        self.assertEqual(class_shape.check(texts, {}), [])

    def test_exceptions(self):
        found = class_shape.check({}, {("server/jobs", "Gone"): "a reason"})
        self.assertEqual(found, ["class_shape.py: server/jobs Gone needs no exception"])
        four = {("server/jobs", f"C{i}"): "a reason" for i in range(4)}
        self.assertIn("class_shape.py: 4 exceptions (at most 3)", class_shape.check({}, four))


if __name__ == "__main__":
    unittest.main()
