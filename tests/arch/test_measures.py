"""The code keeps the limits of measures.py, and each measure finds what it is to find in small sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arch import measures
from tests.arch.couplings import foreign_reach_ins, mutable_caches, reach_ins, spawners_of_any_type, trait_bases
from tests.arch.drawing import draw_texts, find_code, find_texts, paragraphs
from tests.arch.measures import LIMITS, ROWS, Bounds
from tests.arch.sources import Result, comments, docstrings, load_modules


@pytest.fixture(scope="module")
def results(root: Path) -> dict[str, Result]:
    return measures.measure_all(root)


def names(result: Result) -> list[str]:
    """Return the names of the places that a result lists."""
    return [place.partition(" ")[2] for place in result.offenders]


def core(text: str) -> dict[str, str]:
    """Return a checkout whose only module is in core."""
    return {"gpuspawner/core/a.py": text}


# -- the limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIMITS)
def test_the_code_keeps_the_limit(name: str, results: dict[str, Result]):
    bounds, (figure, offenders) = LIMITS[name], results[name]
    if not bounds.include(figure):
        pytest.fail("\n".join([f"{ROWS[name].title}: {figure}, limit {bounds}", *offenders]), pytrace=False)


def test_the_table_has_a_line_for_each_row_and_ends_with_the_figures(results: dict[str, Result]):
    lines = measures.format_table(results).splitlines()
    assert lines[-len(ROWS) :] == [f"{name}: {result.figure}" for name, result in results.items()]
    assert [line.startswith(row.title) for line, row in zip(lines[1:], ROWS.values(), strict=False)] == [True] * len(
        ROWS
    )


def test_a_row_in_the_table_is_ok_only_within_its_goal():
    reached, missed = (measures.format_table({"circles": Result(count, [])}).splitlines()[1] for count in (0, 1))
    assert (reached.rpartition("  ")[2], missed.rpartition("  ")[2]) == ("ok", "not reached")


def test_the_places_of_a_row_can_be_listed(capsys: pytest.CaptureFixture[str], results: dict[str, Result]):
    measures.main(["--list", "largest_package"])
    assert capsys.readouterr().out.splitlines() == results["largest_package"].offenders


@pytest.mark.parametrize(
    ("bounds", "figure", "included"),
    [
        pytest.param(Bounds(high=15), 15, True, id="at the upper bound"),
        pytest.param(Bounds(high=15), 16, False, id="above"),
        pytest.param(Bounds(low=60), 60, True, id="at the lower bound"),
        pytest.param(Bounds(low=60), 59.9, False, id="below"),
    ],
)
def test_bounds_include_both_ends(bounds: Bounds, figure: float, included: bool):
    assert bounds.include(figure) is included


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        pytest.param(Bounds(high=27_000), "≤ 27,000", id="upper"),
        pytest.param(Bounds(low=60), "≥ 60", id="lower"),
        pytest.param(Bounds(140, 250), "140–250", id="both"),
        pytest.param(Bounds(high=0), "0", id="nothing"),
    ],
)
def test_bounds_are_written_as_a_reader_expects(bounds: Bounds, text: str):
    assert str(bounds) == text


# -- packages and modules ----------------------------------------------------------------------------------------------

TREE = {
    "gpuspawner/__init__.py": "",
    "gpuspawner/hub/a.py": "\n" * 3,
    "gpuspawner/hub/b.py": "\n" * 9,
    "gpuspawner/hub/form/__init__.py": "\n" * 50,
    "gpuspawner/hub/form/c.py": "\n" * 4,
}


def test_modules_are_counted_where_they_directly_stand_without_init_files():
    modules = load_modules(TREE)
    assert measures.largest_package(modules) == Result(2, ["gpuspawner.hub 2", "gpuspawner.hub.form 1"])
    assert measures.all_modules(modules).figure == 3


def test_the_median_is_of_modules_and_the_total_of_all_files():
    modules = load_modules(TREE)
    assert (measures.median_lines(modules).figure, measures.total_lines(modules).figure) == (4, 66)


SMALL = {
    "gpuspawner/core/text/__init__.py": "from gpuspawner.core.text.small import f\n__all__ = ['f']\n",
    "gpuspawner/core/text/small.py": "def f(): ...\n",
    "gpuspawner/core/user.py": "from gpuspawner.core.text import f\n" + "x = 1\n" * 60,
}


def test_a_small_module_is_found_through_the_init_file_that_passes_its_names_on():
    found = measures.small_modules_with_one_importer(load_modules(SMALL))
    assert found == Result(1, ["gpuspawner/core/text/small.py:1 1 lines, for gpuspawner.core.user"])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"gpuspawner/core/second.py": "from gpuspawner.core.text import f"}, id="a second importer"),
        pytest.param({"gpuspawner/core/text/second.py": "from . import small"}, id="a relative import"),
        pytest.param({"gpuspawner/core/second.py": "import gpuspawner.core.text.small"}, id="a whole module"),
        pytest.param({"gpuspawner/core/text/small.py": "def f(): ...\n" + "x = 1\n" * 59}, id="60 lines"),
    ],
)
def test_a_module_with_two_importers_or_60_lines_is_not_found(other: dict[str, str]):
    assert measures.small_modules_with_one_importer(load_modules(SMALL | other)).figure == 0


def test_a_command_of_the_program_may_be_small():
    modules = {"gpuspawner/cli/version.py": "def run(): ...\n", "gpuspawner/cli/main.py": "from . import version"}
    assert measures.small_modules_with_one_importer(load_modules(modules)).figure == 0


@pytest.mark.parametrize(
    "back",
    [
        pytest.param("from gpuspawner.core.text.t import x", id="direct"),
        pytest.param("if TYPE_CHECKING:\n    from gpuspawner.core.text.t import x", id="for types"),
        pytest.param("def f():\n    from ..text import t", id="inside a function"),
        pytest.param("import gpuspawner.core.units.u", id="over a third room"),
    ],
)
def test_a_circle_between_rooms_is_found(back: str):
    modules = load_modules(
        {
            "gpuspawner/core/text/__init__.py": "",
            "gpuspawner/core/text/t.py": "from gpuspawner.core.form.f import y",
            "gpuspawner/core/form/f.py": back,
            "gpuspawner/core/units/u.py": "from gpuspawner.core.text import t",
        }
    )
    assert measures.circles(modules).figure == 1


def test_imports_within_a_room_and_in_one_direction_are_no_circle():
    modules = load_modules(
        {
            "gpuspawner/__init__.py": "from gpuspawner.hub.a import x",
            "gpuspawner/hub/a.py": "from gpuspawner.hub.form import b\nimport gpuspawner",
            "gpuspawner/hub/form/b.py": "from gpuspawner.hub.form import c",
            "gpuspawner/hub/form/c.py": "import gpuspawner\nfrom gpuspawner.hub.form import b",
        }
    )
    assert measures.circles(modules) == Result(0, [])


def test_a_module_beside_the_rooms_of_a_layer_is_a_room_of_its_own():
    modules = {
        "gpuspawner/hub/errors.py": "",
        "gpuspawner/hub/form/f.py": "from gpuspawner.hub import errors",
        "gpuspawner/hub/spawner.py": "from gpuspawner.hub.form import f",
    }
    assert measures.circles(load_modules(modules)) == Result(0, [])
    modules["gpuspawner/hub/form/f.py"] = "from gpuspawner.hub import spawner"
    assert measures.circles(load_modules(modules)).figure == 1


# -- names and documentation -------------------------------------------------------------------------------------------


def test_public_names_count_once_where_two_rooms_define_them():
    text = "class Report: ...\nLIMIT = 1\n_private = 1\nT = TypeVar('T')\n"
    modules = load_modules(
        {"gpuspawner/hub/a.py": text, "gpuspawner/hub/b.py": "def look(): ...", "gpuspawner/hub/c.py": "look = 1"}
        | {"gpuspawner/cli/a.py": text}
    )
    assert measures.names_in_two_rooms(modules).figure == 2
    assert names(measures.names_in_two_rooms(modules)) == ["LIMIT", "LIMIT", "Report", "Report"]


FUNCTIONS = """
def parse_form(): ...
async def told(): ...
def _private(): ...
class Form:
    def build(self): ...
    def written(self):
        def inner(): ...
    def __eq__(self, other): ...
    @property
    def size(self): ...
    @functools.cached_property
    def shape(self): ...
    @override
    def options(self): ...
class _Hidden:
    def looked(self): ...
"""


def test_functions_and_methods_that_others_call_are_to_begin_with_a_verb():
    found = measures.functions_with_a_verb(load_modules(core(FUNCTIONS)))
    assert (found.figure, names(found)) == (50.0, ["told", "written"])


def test_the_list_of_verbs_has_no_participles_and_no_comments():
    assert {"parse", "is", "fits"} <= measures.VERBS
    assert {"told", "held", "#", "A"} & measures.VERBS == set()


def test_vague_words_are_counted_in_docstrings_and_comments_alone():
    text = '"""Nobody."""\nX = "people"\n"""People, peoples."""\n# whoever\nsomebody = 1\n' + "# word word\n" * 8
    found = measures.vague_words(load_modules(core(text)))
    assert (found.figure, names(found)) == (150.0, ["nobody", "people", "whoever"])


# -- interfaces --------------------------------------------------------------------------------------------------------

ROOM = {
    "gpuspawner/__init__.py": "from gpuspawner.core.form import show\n__all__ = ['show', 'other']",
    "gpuspawner/core/form/__init__.py": (
        "from gpuspawner.core.form.a import send, show\n__all__ = ['b', 'send', 'show', 'left_out']"
    ),
    "gpuspawner/core/form/a.py": "def show(): ...\ndef send(): ...\ndef left_out(): ...",
    "gpuspawner/core/form/b.py": "from gpuspawner.core.form.a import left_out",
}


@pytest.mark.parametrize(
    ("user", "unused"),
    [
        pytest.param("from gpuspawner.core.form.a import send", ["b", "left_out"], id="by name"),
        pytest.param("from gpuspawner.core.form import send, b", ["left_out"], id="from the room"),
        pytest.param("from gpuspawner.core.form import a\na.send()", ["b", "left_out"], id="with its module"),
        pytest.param("from gpuspawner.core.form import b\nb.send()", ["send", "left_out"], id="of another module"),
    ],
)
def test_a_name_that_no_other_room_imports_is_found(user: str, unused: list[str]):
    modules = load_modules({**ROOM, "gpuspawner/hub/user.py": user})
    assert names(measures.names_that_no_room_imports(modules)) == unused


def test_the_largest_interface_is_of_rooms_and_not_of_the_package():
    found = measures.largest_interface(load_modules(ROOM))
    assert found == (4, ["gpuspawner.core.form 4"])


# -- couplings ---------------------------------------------------------------------------------------------------------


def test_a_spawner_of_any_type_is_found_in_parameters_and_attributes():
    text = "def f(spawner: Any, other: Any): ...\nclass C:\n    _spawner: Any\ndef g(spawner: HubSpawner): ..."
    assert names(spawners_of_any_type(load_modules(core(text)))) == ["spawner", "_spawner"]


def test_private_attributes_of_others_are_found_and_distinguished_from_those_of_other_projects():
    using = "def f(self, a):\n    return a._own, a._state, a._log_name, self._x, a.__class__, a._replace()"
    defining = "class A:\n    _own = 1\n    def f(self, other):\n        self._state = other._state"
    modules = load_modules({"gpuspawner/hub/a.py": defining, "gpuspawner/hub/b.py": using})
    assert names(reach_ins(modules)) == ["a._own", "a._state"]
    assert names(foreign_reach_ins(modules)) == ["a._log_name"]


def test_one_module_may_use_private_names_of_other_projects():
    modules = load_modules({"gpuspawner/hub/kubespawner/private_api.py": "def f(a):\n    return a._log_name"})
    assert names(foreign_reach_ins(modules)) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("A = {}\ndef f(x):\n    A[x] = 1", id="item"),
        pytest.param("A: deque[int] = deque()\ndef f(x):\n    A.append(x)", id="method"),
        pytest.param("A = None\ndef f(x):\n    global A\n    A = x", id="global"),
        pytest.param("A = WeakKeyDictionary()", id="weak dictionary"),
        pytest.param("class C:\n    def set(self, x):\n        self.x = x\nA = C()", id="object"),
    ],
)
def test_a_mutable_cache_of_a_module_is_found(text: str):
    assert names(mutable_caches(load_modules(core(text)))) == ["A"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("A = {}\ndef f(x):\n    return A[x]", id="only read"),
        pytest.param("A = 1\ndef f():\n    A = []\n    A.append(1)", id="local variable"),
        pytest.param("def f(A):\n    A.append(1)\nA = []", id="parameter"),
        pytest.param("@lru_cache\ndef A(x): ...", id="memo"),
        pytest.param("class C:\n    def __init__(self):\n        self.x = 1\nA = C()", id="constant object"),
    ],
)
def test_constants_and_memos_are_no_mutable_caches(text: str):
    assert names(mutable_caches(load_modules(core(text)))) == []


def test_mutable_variables_outside_core_do_not_count():
    assert mutable_caches(load_modules({"gpuspawner/hub/a.py": "A = WeakKeyDictionary()"})).figure == 0


def test_our_own_bases_of_the_spawner_are_counted_up_to_the_last():
    modules = load_modules(
        {
            "gpuspawner/hub/spawner.py": "class GPUSpawner(Traits, KubeSpawner): ...\nclass Other(Base): ...",
            "gpuspawner/hub/traits.py": "class Traits(More): ...\nclass More(Configurable): ...\nclass Base: ...",
        }
    )
    assert names(trait_bases(modules)) == ["Traits", "More"]


# -- tests and texts ---------------------------------------------------------------------------------------------------


def test_docstrings_are_also_those_below_variables_and_not_other_strings():
    text = (
        '"""Module."""\nX = "value"\n"""Variable."""\ndef f():\n    """Function.\n\n    More.\n    """\n    print("x")'
    )
    (module,) = load_modules(core(text)).values()
    assert docstrings(module) == [(1, "Module."), (3, "Variable."), (5, "Function.\n\nMore.")]


def test_comments_on_lines_that_follow_each_other_are_one():
    (module,) = load_modules(core("# One\n# fact.\n\nx = 1  # Another.\nimport y  # noqa: F401\n")).values()
    assert comments(module) == [(1, "One\nfact."), (4, "Another.")]


def test_paragraphs_are_text_without_headings_tables_and_code():
    document = "# Title\n\nFirst\nline.\n\n```\ncode\n\ncode\n```\n\n- one\n- two\n\n| a | b |\n\n    code\n"
    assert paragraphs(document) == [(3, "First\nline."), (12, "- one"), (13, "- two")]


def test_short_texts_are_not_drawn():
    modules = load_modules(core("# Short.\n\n# This one has five words.\n"))
    assert find_texts(modules, {"a.md": "A paragraph of five words.\n"}) == [
        ("gpuspawner/core/a.py:3 comment", "This one has five words."),
        ("a.md:1 paragraph", "A paragraph of five words."),
    ]


def test_a_text_is_drawn_with_the_code_beside_it():
    text = (
        '"""The docstring of a whole module."""\nLIMIT = 3\n"""How many there may be."""\ndef find(\n    one: int\n'
        ') -> int:\n    """Return the one that is found."""\n    # Below is the only one.\n    # It is found.\n'
        "    return one\n"
    )
    modules = {module.path: module for module in load_modules(core(text)).values()}
    (path,) = modules
    found = {
        place: find_code(place, modules) for place, _ in find_texts(load_modules(core(text)), {"a.md": "a b c d e\n"})
    }
    assert found == {
        f"{path}:1 docstring": "",
        f"{path}:3 docstring": "    > LIMIT = 3\n",
        f"{path}:7 docstring": "    > def find(\n    > one: int\n    > ) -> int:\n",
        f"{path}:8 comment": "    > return one\n",
        "a.md:1 paragraph": "",
    }


def test_the_same_seed_draws_the_same_texts(root: Path):
    assert draw_texts(5, 1, root) == draw_texts(5, 1, root) != draw_texts(5, 2, root)
