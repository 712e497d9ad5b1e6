from typing_extensions import disjoint_base

@disjoint_base
class KnownFiles:
    def __len__(self) -> int: ...
