"""
Lets `vllm.benchmarks` be imported without PyTorch and CUDA (7 GB): the engine's own modules, which the benchmark imports
and does not use, are replaced by empty ones. The benchmark itself, its requests and its sums are the package's, unchanged.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

ABSENT = ("torch", "triton", "cuda", "xgrammar", "llguidance", "cv2", "torchvision", "torchaudio")
OF_THE_ENGINE = ("lora", "multimodal", "inputs", "model_executor", "distributed", "config")


class Nothing(type):
    """A class that has any attribute, can be called, subscripted, compared and used as a decorator."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing(name)

    def __call__(cls, *args, **named):
        if len(args) == 1 and not named and callable(args[0]):
            return args[0]
        return nothing(cls.__name__)

    def __getitem__(cls, _):
        return cls

    def __or__(cls, _):
        return object

    __ror__ = __or__

    def __iter__(cls):
        return iter(())

    def __bool__(cls):
        return False

    def __lt__(cls, _):
        return False

    __gt__ = __le__ = __ge__ = __lt__


def nothing(name):
    return Nothing(name, (), {})


class Empty(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name == "__version__":
            return "0.0"
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        top, _, rest = name.partition(".")
        if top in ABSENT or (top == "vllm" and rest.split(".")[0] in OF_THE_ENGINE):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        pass


def install():
    sys.meta_path.insert(0, Finder())
    # The package's own first lines want PyTorch; what lies below it is found as ever.
    package = types.ModuleType("vllm")
    package.__path__ = list(importlib.util.find_spec("vllm").submodule_search_locations)
    sys.modules["vllm"] = package
