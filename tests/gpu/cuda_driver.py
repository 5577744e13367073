"""The parts of the CUDA driver and of NVRTC that hopper_bringup.py needs, through ctypes: nothing to build, nothing to install."""

import ctypes
import glob
import os

NVRTC_PLACES = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so*"]
TYPES = {"bf16": 9, "f16": 6}  # CUtensorMapDataType
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}


class CudaError(Exception):
    pass


def _load(names):
    for name in names:
        for path in sorted(glob.glob(name)) or [name]:
            try:
                # NVRTC opens its builtins by name, which finds them where the loader does not look only if they are loaded.
                for builtins in glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so.*")) if "/" in path else ():
                    ctypes.CDLL(builtins)
                return ctypes.CDLL(path)
            except OSError:
                continue
    raise CudaError("none of these could be loaded: " + ", ".join(names))


def _nvrtc():
    places = list(NVRTC_PLACES)
    for package in glob.glob(os.path.join(os.path.dirname(os.__file__), "site-packages", "nvidia", "*", "lib")):
        places.append(os.path.join(package, "libnvrtc.so*"))
    return _load(places)


def nvrtc_is_there():
    try:
        _nvrtc()
    except CudaError:
        return False
    return True


def compile_source(text, headers, macros, options=()):
    """Returns (cubin or None, log). `headers` is {name: text}."""
    nvrtc = _nvrtc()
    program = ctypes.c_void_p()
    names = list(headers)
    texts = (ctypes.c_char_p * len(names))(*[headers[name].encode() for name in names])
    keys = (ctypes.c_char_p * len(names))(*[name.encode() for name in names])
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", len(names), texts, keys)
    arguments = ["--gpu-architecture=sm_90a", "--ptxas-options=-v", "--std=c++20", "--device-as-default-execution-space"]
    arguments += ["-D%s=%s" % item for item in macros.items()] + list(options)
    result = nvrtc.nvrtcCompileProgram(program, len(arguments), (ctypes.c_char_p * len(arguments))(*[a.encode() for a in arguments]))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    cubin = None
    if result == 0:
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, buffer)
        cubin = buffer.raw
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin, log.value.decode(errors="replace")


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class _LaunchConfig(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint)]


class Device:
    """A context on the first GPU. Everything raises CudaError."""

    def __init__(self):
        self.cu = _load(["libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"])
        self.check(self.cu.cuInit(0))
        device = ctypes.c_int()
        self.check(self.cu.cuDeviceGet(ctypes.byref(device), 0))
        context = ctypes.c_void_p()
        self.check(self.cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.check(self.cu.cuCtxSetCurrent(context))
        count = ctypes.c_int()
        self.check(self.cu.cuDeviceGetAttribute(ctypes.byref(count), 16, device))  # multiprocessors
        self.sm_count = count.value
        self.modules = []

    def check(self, code):
        if code != 0:
            name = ctypes.c_char_p()
            self.cu.cuGetErrorName(code, ctypes.byref(name))
            raise CudaError((name.value or b"?").decode())

    def module(self, cubin):
        module = ctypes.c_void_p()
        self.check(self.cu.cuModuleLoadData(ctypes.byref(module), cubin))
        self.modules.append(module)
        return module

    def function(self, module, name, shared_bytes=0):
        function = ctypes.c_void_p()
        self.check(self.cu.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        if shared_bytes > 49152:
            self.check(self.cu.cuFuncSetAttribute(function, 8, shared_bytes))
        return function

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.check(self.cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(size, 16))))
        return pointer.value

    def upload(self, array):
        pointer = self.allocate(array.nbytes)
        self.write(pointer, array)
        return pointer

    def write(self, pointer, array):
        self.check(self.cu.cuMemcpyHtoD_v2(ctypes.c_uint64(pointer), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)))

    def read(self, pointer, array):
        self.check(self.cu.cuMemcpyDtoH_v2(ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(pointer), ctypes.c_size_t(array.nbytes)))

    def fill(self, pointer, value, count):
        self.check(self.cu.cuMemsetD16_v2(ctypes.c_uint64(pointer), ctypes.c_ushort(value), ctypes.c_size_t(count)))

    def synchronize(self):
        self.check(self.cu.cuCtxSynchronize())

    def tensor_map(self, dtype, pointer, dims, strides, box, swizzle, promotion="256B"):
        raw = (ctypes.c_char * 192)()
        start = (ctypes.addressof(raw) + 63) // 64 * 64
        rank = len(dims)
        self.check(self.cu.cuTensorMapEncodeTiled(
            ctypes.c_void_p(start), TYPES[dtype], ctypes.c_uint(rank), ctypes.c_void_p(pointer),
            (ctypes.c_uint64 * rank)(*dims), (ctypes.c_uint64 * rank)(*strides, 0), (ctypes.c_uint32 * rank)(*box),
            (ctypes.c_uint32 * rank)(*[1] * rank), 0, SWIZZLES[swizzle], PROMOTIONS[promotion], 0))
        return ("map", raw, start)

    def launch(self, function, grid, block, shared_bytes, cluster, arguments):
        """Arguments: tensor maps, ("i", int) or ("p", address)."""
        kept, pointers = [], []
        for argument in arguments:
            if argument[0] == "map":
                pointers.append(argument[2])
                continue
            value = ctypes.c_int(argument[1]) if argument[0] == "i" else ctypes.c_uint64(argument[1])
            kept.append(value)
            pointers.append(ctypes.addressof(value))
        attribute = _Attribute()
        attribute.id = 4  # cluster dimension
        attribute.value[0], attribute.value[1], attribute.value[2] = cluster, 1, 1
        config = _LaunchConfig((grid, 1, 1) if isinstance(grid, int) else grid, (block, 1, 1) if isinstance(block, int) else block,
                               shared_bytes, None, ctypes.pointer(attribute), 1 if cluster > 1 else 0)
        self.check(self.cu.cuLaunchKernelEx(ctypes.byref(config), function, (ctypes.c_void_p * len(pointers))(*pointers), None))

    def event(self):
        event = ctypes.c_void_p()
        self.check(self.cu.cuEventCreate(ctypes.byref(event), 0))
        return event

    def record(self, event):
        self.check(self.cu.cuEventRecord(event, None))

    def elapsed_us(self, begin, end):
        self.check(self.cu.cuEventSynchronize(end))
        ms = ctypes.c_float()
        self.check(self.cu.cuEventElapsedTime(ctypes.byref(ms), begin, end))
        return ms.value * 1000
