"""Derive from a manifest who reads or writes each secret, and which code receives the secret."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from keyhouse.manifest import Action, Manifest, TemplateIndex, TemplateSource, index_templates

COLUMNS: Final = ("Packages", "Marbles", "Secrets", "Roles", "Users")
"""The columns of the picture: code on the left, people on the right."""

_SECRET_ACTIONS: Final = {Action.READ_SECRET: "reads", Action.WRITE_SECRET: "writes"}


class Node(msgspec.Struct, frozen=True, order=True):
    """An element of the manifest, identified by its section and its name."""

    section: str
    name: str


class Arrow(msgspec.Struct, frozen=True, order=True):
    """A relation between two elements of the manifest; ``left`` is nearer to the code.

    ``rule`` is a verb, for example "may run as" or "reads".
    """

    left: Node
    right: Node
    rule: str


class Graph(msgspec.Struct, frozen=True):
    """The nodes and arrows of a manifest for a drawing.

    ``left_out`` counts the nodes that the drawing omits, by section.
    """

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    left_out: Mapping[str, int]


def secrets_of(index: TemplateIndex, marble: str) -> list[str]:
    """Return the names of the secrets in the templates of the marble type ``marble``, sorted.

    ``index`` has the names in all templates of the manifest.
    """
    return sorted(index.marbles[marble].names(TemplateSource.SECRETS))


def graph_of(manifest: Manifest, focus: Node | None, word: str, most: int) -> Graph:
    """Return the graph of ``manifest``: the whole graph, or only the paths through some nodes.

    ``focus`` selects the paths through this node. With None, ``word`` selects the paths through all
    nodes with ``word`` in their name, in any case of letters; "" selects the whole graph. No column
    has more than ``most`` nodes.
    """
    arrows = sorted(set(_arrows(manifest)))
    nodes = set(_nodes(manifest))
    through = {focus} if focus is not None else {each for each in nodes if _has(each, word)}
    if focus is not None or word:
        arrows = _around(through, arrows)
        nodes = {*through, *(each.left for each in arrows), *(each.right for each in arrows)}
    kept, left_out = set[Node](), dict[str, int]()
    for section in COLUMNS:
        here = sorted(node for node in nodes if node.section == section)
        # The found names first: their paths can lead to more nodes than a column has.
        here.sort(key=lambda node: node not in through)
        kept |= set(here[:most])
        if len(here) > most:
            left_out[section] = len(here) - most
    shown = tuple(each for each in arrows if each.left in kept and each.right in kept)
    return Graph(tuple(sorted(kept)), shown, left_out)


def _nodes(manifest: Manifest) -> Iterator[Node]:
    sections: tuple[Iterable[str], ...] = (
        manifest.packages,
        manifest.marbles,
        manifest.secrets,
        manifest.roles,
        manifest.users,
    )
    for section, names in zip(COLUMNS, sections, strict=True):
        yield from (Node(section, name) for name in names)


def _arrows(manifest: Manifest) -> Iterator[Arrow]:
    index = index_templates(manifest)
    for name, marble in manifest.marbles.items():
        here = Node("Marbles", name)
        yield Arrow(Node("Packages", marble.package), here, "may run as")
        for secret in secrets_of(index, name):
            if secret in manifest.secrets:
                yield Arrow(here, Node("Secrets", secret), "is given")
    for name, role in manifest.roles.items():
        for action in role.actions:
            if verb := _SECRET_ACTIONS.get(action, ""):
                for secret in role.resource_names:
                    yield Arrow(Node("Secrets", secret), Node("Roles", name), verb)
    for name, user in manifest.users.items():
        for role_name in user.roles:
            yield Arrow(Node("Roles", role_name), Node("Users", name), "has")


def _has(node: Node, word: str) -> bool:
    return word.casefold() in node.name.casefold()


def _around(through: set[Node], arrows: list[Arrow]) -> list[Arrow]:
    """Return the arrows on all paths that lead to or from a node of ``through``."""
    into: dict[Node, list[Arrow]] = {}
    out: dict[Node, list[Arrow]] = {}
    for each in arrows:
        into.setdefault(each.right, []).append(each)
        out.setdefault(each.left, []).append(each)
    found: set[Arrow] = set()
    for table, leads_to_left in ((into, True), (out, False)):
        edge, visited = set(through), set[Node]()
        while edge:
            step = [arrow for node in edge for arrow in table.get(node, ())]
            found |= set(step)
            visited |= edge
            edge = {arrow.left if leads_to_left else arrow.right for arrow in step} - visited
    return sorted(found)
