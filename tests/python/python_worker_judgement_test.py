"""What the worker of kernels in Python (server/worker/python) judges outputs by."""

import math
import unittest

import numpy

import python_worker_source  # noqa: F401, which makes tunefarm_worker importable
from tunefarm_worker import arrays, checking


class Judgement(unittest.TestCase):
    def check(self, own, expected, **tolerance):
        return checking.compare(arrays.leaves(own), arrays.leaves(expected), checking.Tolerance(**tolerance))

    def test_what_equals_passes_and_what_does_not_is_counted(self):
        truth = numpy.linspace(1, 2, 1000)
        self.assertIsNone(self.check(truth.copy(), truth).wrong)
        near = truth + 1e-6
        self.assertIsNone(self.check(near, truth, atol=1e-5).wrong)
        self.assertIsNone(self.check(near.astype("float32"), truth, rtol=1e-5).wrong)
        found = self.check(near, truth)
        self.assertEqual((found.elements, found.mismatches, len(found.first)), (1000, 1000, 8))
        self.assertAlmostEqual(found.max_absolute_error, 1e-6, places=9)

    def test_a_share_may_miss_but_nothing_may_be_far_off_or_no_number(self):
        truth = numpy.ones(1000)
        own = truth.copy()
        own[:10] = 1.5
        self.assertIsNone(self.check(own, truth, max_mismatch_fraction=0.01).wrong)
        self.assertIsNotNone(self.check(own, truth, max_mismatch_fraction=0.009).wrong)
        self.assertIsNotNone(self.check(own, truth, max_mismatch_fraction=0.01, catastrophic_bound=0.4).wrong)
        for value in (math.nan, math.inf, -math.inf):
            own = truth.copy()
            own[500] = value
            found = self.check(own, truth, atol=1e9, max_mismatch_fraction=0.5)
            self.assertIn("500", found.wrong)
        infinite = truth.copy()
        infinite[3] = math.inf
        self.assertIsNone(self.check(infinite.copy(), infinite).wrong)

    def test_what_the_truth_leaves_unwritten_must_stay_so(self):
        truth = numpy.array([1.0, math.nan])
        self.assertIsNone(self.check(numpy.array([1.0, math.nan]), truth).wrong)
        self.assertIsNotNone(self.check(numpy.array([1.0, 0.0]), truth).wrong)
        self.assertIn("only NaN", self.check(numpy.full(3, math.nan), numpy.full(3, math.nan)).wrong)

    def test_integers_truths_shapes_and_numbers(self):
        truth = numpy.array([2**62, 5])
        self.assertIsNotNone(self.check(truth + [1, 0], truth).wrong)
        self.assertIsNone(self.check(truth + [0, 1], truth, atol=1).wrong)
        self.assertIsNotNone(self.check(numpy.array([True]), numpy.array([False])).wrong)
        self.assertIn("shape", self.check(numpy.ones(3), numpy.ones((1, 3))).wrong)
        self.assertIn("outputs", self.check([numpy.ones(3)], [numpy.ones(3), 1]).wrong)
        self.assertIsNone(self.check({"a": [1.0, 2]}, {"a": (1.0, 2)}).wrong)
        self.assertIn("type", self.check(numpy.ones(3, int), numpy.ones(3)).wrong)
        with self.assertRaises(arrays.NotAnArray):
            self.check("text", numpy.ones(3))

    def test_rows_have_a_norm_of_their_own(self):
        truth = numpy.ones((4, 8))
        own = truth.copy()
        own[2] += 0.1
        self.assertIsNone(self.check(own, truth, atol=0.2, row_norm_bound=0.2, row_length=8).wrong)
        self.assertIn("row 2", self.check(own, truth, atol=0.2, row_norm_bound=0.05, row_length=8).wrong)

    def test_a_truth_that_varies_less_than_the_tolerance_has_a_constant_that_passes(self):
        truth = numpy.arange(64.0) % 8

        def constant(truth, **tolerance):
            return checking.passing_constant(truth, checking.Tolerance(**tolerance))

        self.assertEqual(constant(truth, atol=4.0), 3.5)
        self.assertIsNone(self.check(numpy.full(64, 3.5), truth, atol=4.0).wrong)
        self.assertIsNone(constant(truth, atol=3.4))
        self.assertIsNone(constant(truth[:15], atol=4.0))
        self.assertIsNone(constant(truth, atol=4.0, row_norm_bound=0.1, row_length=8))
        self.assertEqual(constant(numpy.where(truth < 4, truth, math.nan), atol=2.0), 1.5)
        self.assertIsNone(constant(numpy.where(truth < 7, truth, math.inf), atol=4.0))
        self.assertEqual(constant(numpy.full((4, 4), 7)), 7.0)
        self.assertIsNone(constant(numpy.arange(16) % 2, rtol=1.0, atol=0.9))
        note = checking.constant_note([("a", truth), ("b", numpy.ones(16))], checking.Tolerance())
        self.assertIn("1 in every element would pass for b", note)

    def test_both_parts_of_complex_numbers_are_compared(self):
        truth = numpy.arange(6) + 1j
        self.assertIsNone(self.check(truth.copy(), truth).wrong)
        for part, wrong in (("real", truth + 1), ("imag", truth + 1j), ("imag", truth.conj())):
            self.assertIn(f".{part} differ", self.check(wrong, truth).wrong)
        self.assertIn("is of type", self.check(truth.real, truth).wrong)
        self.assertIn("is of type", self.check(truth, truth.real).wrong)
        unwritten = numpy.empty(6, "complex64")
        arrays.poison(unwritten, 0)
        unwritten.real[:] = truth.real
        self.assertIn(".imag differ", self.check(unwritten, truth).wrong)

    def test_poison_is_in_every_element_and_of_two_kinds(self):
        for kind in ("float16", "float32", "float64", "complex64"):
            array = numpy.ones((3, 4), kind)[:, ::2]
            self.assertTrue(arrays.poison(array, 0))
            for part in (array.real, array.imag) if kind == "complex64" else (array,):
                self.assertTrue(numpy.isnan(part).all())
        for kind in ("int8", "uint8", "int32", "int64", "bool"):
            first, second = numpy.ones((3, 4), kind), numpy.ones((3, 4), kind)
            self.assertTrue(arrays.poison(first, 0) and arrays.poison(second, 1))
            self.assertTrue((first != second).all(), kind)
        fixed = numpy.ones(3)
        fixed.flags.writeable = False
        self.assertFalse(arrays.poison(fixed, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
