from typing import final

@final
class Lease: ...
