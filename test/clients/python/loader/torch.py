"""
Stands in for PyTorch (5 GB with CUDA) where guidellm runs. It takes one thing from there, the loop that hands out its prompts;
here they are made in the process that asks for them. Requests, times and sums are guidellm's own.
"""
import sys
import types

__version__ = "0.0"


class Generator:
    def manual_seed(self, seed):
        return self


class OfRows:
    def __class_getitem__(cls, row):
        return cls


class IterableDataset(OfRows):
    pass


class DataLoader(OfRows):
    def __init__(self, dataset, batch_size, shuffle, collate_fn, num_workers, prefetch_factor, generator):
        if batch_size != 1 or shuffle:
            raise NotImplementedError("rows one by one, in their order")
        self.dataset = dataset
        self.collate_fn = collate_fn

    def __iter__(self):
        for row in self.dataset:
            yield self.collate_fn([row])


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    made.__path__ = []
    sys.modules[name] = made
    return made


data = module("torch.utils.data", IterableDataset=IterableDataset, get_worker_info=lambda: None)
data.dataset = module("torch.utils.data.dataset", IterableDataset=IterableDataset)
data.dataloader = module("torch.utils.data.dataloader", DataLoader=DataLoader)
utils = module("torch.utils", data=data)
