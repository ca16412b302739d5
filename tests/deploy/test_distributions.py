"""The walls between distributions: each module belongs to one, and imports go along its needs."""

import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import grimp
import pytest
from support.distributions import TABLE


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """The imports of this tree; those for type checkers alone do not count."""
    return grimp.build_graph(
        "keyhouse",
        "keyhouse_simulation",
        include_external_packages=True,
        exclude_type_checking_imports=True,
    )


def _own(graph: grimp.ImportGraph) -> Iterator[str]:
    for module in graph.modules:
        if module.partition(".")[0] in {"keyhouse", "keyhouse_simulation"}:
            yield module


def test_every_module_belongs_to_one_distribution(graph: grimp.ImportGraph) -> None:
    modules = set(_own(graph))
    assert [module for module in modules if TABLE.owner(module) is None] == []
    claimed = [each for row in TABLE.rows.values() for each in (*row["rooms"], *row["modules"])]
    twice = {each for each in claimed if claimed.count(each) > 1} - {"keyhouse.client"}
    assert twice == set()  # the package client is the launcher's, its other rooms are the people's
    assert set(claimed) <= modules


def test_imports_go_along_the_needs_of_distributions(graph: grimp.ImportGraph) -> None:
    crossing = [
        f"{module} -> {imported}"
        for module in _own(graph)
        for imported in graph.find_modules_directly_imported_by(module)
        if imported.partition(".")[0] in {"keyhouse", "keyhouse_simulation"}
        and TABLE.owner(imported) not in TABLE.closure(TABLE.owner(module))
    ]
    assert crossing == []


def test_every_library_that_a_distribution_imports_is_one_of_its_requirements(
    graph: grimp.ImportGraph,
) -> None:
    # google is the package of protobuf, and its name belongs to several distributions.
    names = {**packages_distributions(), "google": ["protobuf"]}
    extras = {"asyncpg", "pkcs11", "pytest"}
    extras |= {"h11", "jinja2", "markupsafe", "starlette", "uvicorn"}  # of the console
    missing = set()
    for module in _own(graph):
        owner = TABLE.owner(module)
        known = {each for name in TABLE.closure(owner) for each in TABLE.rows[name]["libraries"]}
        known = {each.lower().replace("-", "_") for each in known}
        known |= {"hpack", "hyperframe"} if "h2" in known else set()  # h2 is made of them
        for imported in graph.find_modules_directly_imported_by(module):
            top = imported.partition(".")[0]
            if top in sys.stdlib_module_names | extras | {"keyhouse", "keyhouse_simulation"}:
                continue
            if not known & {name.lower().replace("-", "_") for name in names.get(top, [top])}:
                missing.add(f"{owner}: {module} imports {top}")
    assert missing == set()
