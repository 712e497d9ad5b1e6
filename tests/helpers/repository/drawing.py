"""The picture of the native modules: a row and a column for each, and a dot where one imports another.

Modules come in an order in which each stands behind those that it imports, so that all dots lie below the diagonal. Run
by ``make picture``, which writes it to ``docs/cimports.svg``.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterator

from helpers.repository.layers import NATIVE, REPOSITORY, Graph, files, graph, imports, rooms

__all__ = ["PICTURE", "picture"]

PICTURE = REPOSITORY / "docs/cimports.svg"

_CELL, _LEFT, _TOP = 11, 150, 20


def _ordered(whole: Graph) -> list[str]:
    """Return nodes, each behind those that it leads to; of several that might come next, the first by name."""
    sorter = graphlib.TopologicalSorter({node: sorted(others) for node, others in sorted(whole.items())})
    sorter.prepare()
    found: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        found += ready
        sorter.done(*ready)
    return found


def _native() -> Graph:
    """Return the native modules of the product, by names such as ``io/blocks``, with those that each imports."""
    whole = graph(imports(files()))
    product = [name for name in whole if name.startswith(f"{NATIVE}/") and "/testing/" not in name]
    inside = {name for name in product if not name.endswith(".py")}
    return {
        name.removeprefix(f"{NATIVE}/"): {one.removeprefix(f"{NATIVE}/") for one in whole[name] & inside} - {name}
        for name in inside
    }


def picture() -> str:
    """Return the picture as SVG."""
    modules = _native()
    folders: dict[str, Graph] = {}
    for name, others in modules.items():
        room = name.partition("/")[0]
        folders.setdefault(room, {})[name] = {one for one in others if one.partition("/")[0] == room}
    order = [name for room in _ordered(rooms(modules)[""]) for name in _ordered(folders[room])]
    place = {name: index for index, name in enumerate(order)}
    side = len(order) * _CELL
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + side + 10} {_TOP + side + 10}" '
        'font-family="sans-serif" font-size="9">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_squares(order),
        *(
            f'<text x="{_LEFT - 5}" y="{_TOP + index * _CELL + 9}" text-anchor="end">{name}</text>'
            for name, index in place.items()
        ),
    ]
    for name, index in place.items():
        x, y = _LEFT + index * _CELL, _TOP + index * _CELL
        lines.append(f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="#bbb"/>')
        for other in sorted(modules[name], key=place.__getitem__):
            x = _LEFT + place[other] * _CELL
            lines.append(
                f'<circle cx="{x + _CELL / 2}" cy="{y + _CELL / 2}" r="3" fill="#036">'
                f"<title>{name} imports {other}</title></circle>"
            )
    return "\n".join([*lines, "</svg>", ""])


def _squares(order: list[str]) -> Iterator[str]:
    """Yield a square around the modules of each folder, with the folder's name above it."""
    folders = [name.partition("/")[0] for name in order]
    for folder in dict.fromkeys(folders):
        at, side = _TOP + folders.index(folder) * _CELL, folders.count(folder) * _CELL
        x = at - _TOP + _LEFT
        yield (
            f'<rect x="{x}" y="{at}" width="{side}" height="{side}" fill="#eef3f8" stroke="#89a"/>'
            f'<text x="{x}" y="{at - 4}" fill="#567">{folder}</text>'
        )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
