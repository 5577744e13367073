"""Constants of kernels that tune_kernel and run_kernel launch, without a GPU."""

import unittest
import unittest.mock
import warnings

import numpy

import tunefarm
from tunefarm import _cuda
from tunefarm.inline import _arguments, _launching, _source


_FINISH_ALL, _DEVICE_ARRAY, _CONTEXT_OF = _launching._finish_all, _launching.DeviceArray, _cuda.context_of


class FakeKernel:
    """A loaded kernel of a GPU: what was done with it, in order. Its binary holds what prepare copied last."""

    device = 0
    arguments = (tunefarm.launch.Argument("x", "f32", "INOUT"), tunefarm.launch.Argument("c", "f32", "IN"))

    def __init__(self, generation, binary, said):
        self.generation, self.binary, self.said = generation, binary, said

    def plan(self):
        return unittest.mock.Mock(needs_prepare=True, generation=self.generation)

    def prepare(self, stream, x, c):
        self.said.append("prepare")
        self.binary["c"] = c.array.tolist()

    def __call__(self, stream, generation, x, c):
        assert generation == self.generation
        self.said.append((stream, self.binary["c"]))


class Constants(unittest.TestCase):
    """Constants of launches. All kernels of the process that have the same binary share its constant memory."""

    def setUp(self):
        self.said = []
        self.context = 1
        for target, name, fake in (
                (_launching, "DeviceArray", lambda array, device: unittest.mock.Mock(array=array)), (_launching, "_held", {}),
                (_launching, "_finish_all", lambda device: self.said.append("wait")),
                (_cuda, "context_of", lambda device: self.context)):
            self.enterContext(unittest.mock.patch.object(target, name, fake))

    def program(self, values, generation, binary):
        source = _source.read("f", "__constant__ float c[2]; __global__ void f(float *x) { x[0] = c[0]; }", None)
        arguments = _arguments.read([numpy.ones(2, "f4")], None, None, source)
        constants = _arguments.constants({"c": values}, source, arguments)
        program = _launching.Program(None, "CUDA", arguments, constants, None, "", 0)
        program.loaded = lambda config: FakeKernel(generation, binary, self.said)
        return lambda stream=None: program.launch({}, [None], stream)

    def take(self):
        said = list(self.said)
        self.said.clear()
        return said

    def test_they_are_copied_once(self):
        values = numpy.array([1, 2], "f4")
        launch = self.program(values, 7, {})
        values[:] = 0  # the caller's array is read when the kernel is tuned
        launch()
        self.assertEqual(self.take(), ["wait", "prepare", "wait", (None, [1, 2])])
        launch(1)
        launch(2)
        self.assertEqual(self.take(), [(1, [1, 2]), (2, [1, 2])])
        self.context = 2  # of another device: its binary has a memory of its own
        launch()
        self.assertEqual(self.take()[:3], ["wait", "prepare", "wait"])

    def test_kernels_may_share_a_binary(self):
        binary = {}
        first, second = self.program(numpy.array([1, 2], "f4"), 7, binary), self.program(numpy.array([3, 4], "f4"), 8, binary)
        for launch, held in ((first, [1, 2]), (second, [3, 4]), (first, [1, 2])):
            for stream in (1, 2):
                launch(stream)
            self.assertEqual(self.take(), ["wait", "prepare", "wait", (1, held), (2, held)])
        other = self.program(numpy.array([1, 2], "f4"), 9, {})  # another binary with the same constants
        other()
        self.take()
        first()
        other()
        self.assertEqual(self.take(), [(None, [1, 2]), (None, [1, 2])])

    def test_a_copy_that_fails_is_made_again(self):
        launch = self.program(numpy.array([1, 2], "f4"), 7, {})
        with unittest.mock.patch.object(FakeKernel, "prepare", side_effect=tunefarm.LaunchError("no")), self.assertRaises(tunefarm.LaunchError):
            launch()
        self.take()
        launch()
        self.assertEqual(self.take(), ["wait", "prepare", "wait", (None, [1, 2])])

    def test_the_driver_is_asked_in_the_context_of_the_launches(self):
        for current, pushes in ((0, []), (1, ["cuCtxPushCurrent_v2"]), (None, ["cuCtxPushCurrent_v2"])):
            driver = unittest.mock.MagicMock()
            for name in ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxSynchronize", "cuDeviceGet", "cuDevicePrimaryCtxRetain",
                         "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuStreamSynchronize", "cuMemFree_v2", "cuCtxGetCurrent"):
                getattr(driver, name).return_value = 0
            with unittest.mock.patch.object(_cuda, "driver", lambda: driver), unittest.mock.patch.object(_cuda, "_primary", {}), \
                    unittest.mock.patch.object(_cuda, "current_device", lambda: current):
                _FINISH_ALL(0)
                called = [call[0] for call in driver.method_calls]
                self.assertEqual([name for name in called if name == "cuCtxPushCurrent_v2"], pushes)
                self.assertIn("cuCtxSynchronize", called)
                self.assertEqual(_CONTEXT_OF(0), 0)
                array = _DEVICE_ARRAY(numpy.ones(3, "f4"), 0)
                self.assertEqual(array.__cuda_array_interface__["shape"], (3,))
                driver.cuCtxSynchronize.return_value = 900
                with self.assertRaisesRegex(tunefarm.LaunchError, "CUDA error 900; launch the kernel once before a capture"):
                    _FINISH_ALL(0)
                del array
            driver.cuMemFree_v2.assert_called_once()

    def test_names_that_launches_use_themselves(self):
        source = _source.read("f", "__constant__ float stream; __global__ void f(float *x) { x[0] = stream; }", None)
        (constant,) = _arguments.constants({"stream": numpy.float32(2)}, source, [])
        self.assertEqual((constant.name, constant.given, constant.array.tolist()), ("stream_constant", "stream", [2]))


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
